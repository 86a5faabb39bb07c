# What a cloud would answer, for Terraform's own tests.

mock_data "azurerm_client_config" {
  defaults = {
    subscription_id = "00000000-0000-0000-0000-000000000001"
    tenant_id       = "00000000-0000-0000-0000-000000000002"
    object_id       = "00000000-0000-0000-0000-000000000003"
  }
}
mock_resource "azurerm_user_assigned_identity" {
  defaults = {
    id           = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.ManagedIdentity/userAssignedIdentities/x"
    client_id    = "00000000-0000-0000-0000-00000000000a"
    principal_id = "00000000-0000-0000-0000-00000000000b"
  }
}
mock_resource "azurerm_storage_account" {
  defaults = {
    id                    = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Storage/storageAccounts/x"
    primary_blob_endpoint = "https://x.blob.core.windows.net/"
  }
}
mock_resource "azurerm_storage_container" {
  defaults = {
    id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Storage/storageAccounts/x/blobServices/default/containers/y"
  }
}
mock_resource "azurerm_function_app_flex_consumption" {
  defaults = {
    id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Web/sites/x"
  }
}
mock_resource "azurerm_service_plan" {
  defaults = {
    id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Web/serverFarms/x"
  }
}
mock_resource "azurerm_log_analytics_workspace" {
  defaults = {
    id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.OperationalInsights/workspaces/x"
  }
}
mock_resource "azurerm_application_insights" {
  defaults = {
    id                = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Insights/components/x"
    connection_string = "InstrumentationKey=00000000-0000-0000-0000-00000000000c"
  }
}
mock_resource "azurerm_monitor_action_group" {
  defaults = {
    id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Insights/actionGroups/x"
  }
}
mock_resource "azurerm_role_definition" {
  defaults = {
    role_definition_resource_id = "/subscriptions/00000000-0000-0000-0000-000000000001/providers/Microsoft.Authorization/roleDefinitions/00000000-0000-0000-0000-00000000000d"
  }
}
mock_resource "azurerm_eventgrid_topic" {
  defaults = {
    id       = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.EventGrid/topics/x"
    endpoint = "https://x.westeurope-1.eventgrid.azure.net/api/events"
  }
}
mock_resource "azurerm_resource_group" {
  defaults = {
    id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice"
  }
}
mock_resource "azurerm_key_vault" {
  defaults = {
    id        = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.KeyVault/vaults/x"
    vault_uri = "https://x.vault.azure.net/"
  }
}
mock_resource "azurerm_availability_set" {
  defaults = {
    id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Compute/availabilitySets/x"
  }
}

mock_resource "azurerm_virtual_network" {
  defaults = {
    id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Network/virtualNetworks/x"
  }
}

mock_resource "azurerm_subnet" {
  defaults = {
    id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Network/virtualNetworks/x/subnets/app"
  }
}

mock_resource "azurerm_nat_gateway" {
  defaults = {
    id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Network/natGateways/x"
  }
}

mock_resource "azurerm_public_ip" {
  defaults = {
    id         = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Network/publicIPAddresses/x"
    ip_address = "20.0.0.7"
  }
}
