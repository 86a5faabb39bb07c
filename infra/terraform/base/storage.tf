# The app's own state, its task hub, its package, and what passes between exporter and app. No keys: identities only.

resource "azurerm_storage_account" "state" {
  #checkov:skip=CKV_AZURE_43:8 to 22 lower-case letters and digits, which checkov cannot work out of an expression
  #checkov:skip=CKV_AZURE_59:nothing in it is public; the Functions host and exporters reach it with Entra identities
  #checkov:skip=CKV_AZURE_206:zone-redundant: what it holds is of use for minutes, and worthless in another region
  #checkov:skip=CKV_AZURE_33:classic queue logging takes a key, and there are none; diagnostic settings are the user's choice
  #checkov:skip=CKV2_AZURE_33:a private endpoint is the user's choice, with their network
  #checkov:skip=CKV2_AZURE_1:the customer's own key is the user's choice; it holds no data of theirs but names of pods and nodes
  name                            = local.storage_name
  resource_group_name             = var.resource_group_name
  location                        = var.location
  account_kind                    = "StorageV2"
  account_tier                    = "Standard"
  account_replication_type        = "ZRS"
  min_tls_version                 = "TLS1_2"
  https_traffic_only_enabled      = true
  shared_access_key_enabled       = false
  default_to_oauth_authentication = true
  allow_nested_items_to_be_public = false
  local_user_enabled              = false
  tags                            = local.tags

  blob_properties {
    versioning_enabled = false

    delete_retention_policy {
      days = 7
    }
    container_delete_retention_policy {
      days = 7
    }
  }
}

locals {
  containers = toset(concat(
    ["config", "dead-letters", "package"],
    [for cluster in keys(var.clusters) : "snapshots-${cluster}"],
    [for cluster in keys(var.clusters) : "plans-${cluster}"],
  ))
}

resource "azurerm_storage_container" "each" {
  #checkov:skip=CKV2_AZURE_21:as for queues: diagnostic settings are the user's choice
  for_each = local.containers

  name                  = each.value
  storage_account_id    = azurerm_storage_account.state.id
  container_access_type = "private"
}

# Snapshots are of use for minutes, plans that were acted on for as long as somebody asks why, the trail of what was done
# to nodes and pods for as long as an audit goes back.
resource "azurerm_storage_management_policy" "old" {
  storage_account_id = azurerm_storage_account.state.id

  rule {
    name    = "snapshots"
    enabled = true
    filters {
      blob_types   = ["blockBlob"]
      prefix_match = [for cluster in keys(var.clusters) : "snapshots-${cluster}/"]
    }
    actions {
      base_blob {
        delete_after_days_since_modification_greater_than = 1
      }
    }
  }

  rule {
    name    = "plans"
    enabled = true
    filters {
      blob_types   = ["blockBlob"]
      prefix_match = [for cluster in keys(var.clusters) : "plans-${cluster}/acted/"]
    }
    actions {
      base_blob {
        delete_after_days_since_modification_greater_than = 7
      }
    }
  }

  rule {
    name    = "trail"
    enabled = true
    filters {
      blob_types   = ["blockBlob"]
      prefix_match = [for cluster in keys(var.clusters) : "plans-${cluster}/trail/"]
    }
    actions {
      base_blob {
        delete_after_days_since_modification_greater_than = 90
      }
    }
  }
}
