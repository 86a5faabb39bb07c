# A cluster of one's own (kubeadm, k3s, ...) whose workers are scale sets: Spot first, on-demand behind it.
#
# The image must join the cluster by itself, fetching its token with the VM's identity: whatever is written into
# custom_data can be read by everybody who may read the scale set, and lies in the state.

variable "oidc_issuer_url" {
  description = "Issuer of the cluster's service account tokens, readable without signing in (kube-apiserver --service-account-issuer)."
  type        = string
  nullable    = false
}

variable "subnet_id" {
  description = "Subnet of the workers."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.Network/virtualNetworks/[^/]+/subnets/[^/]+$", var.subnet_id))
    error_message = "subnet_id: the id of a subnet."
  }
}

variable "image_id" {
  description = "Image whose machines join the cluster by themselves: a managed image, or a version in a gallery."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.Compute/(images|galleries)/", var.image_id))
    error_message = "image_id: the id of an image, or of an image's version in a gallery."
  }
}

variable "ssh_public_key" {
  description = "For looking at a machine that does not join."
  type        = string
  nullable    = false
}

locals {
  vault = true # the cluster does not know Entra identities: a service account's token lies there

  pools_file = templatefile("${path.module}/pools.yaml", {
    cluster        = var.cluster
    subscription   = var.subscription_id
    resource_group = azurerm_resource_group.workers.name
    location       = var.location
  })
  workers = "/subscriptions/${var.subscription_id}/resourceGroups/${azurerm_resource_group.workers.name}"
}

module "base" {
  source = "../../base"

  name                = var.name
  location            = var.location
  resource_group_name = module.surroundings.resource_group_name
  key_vault_id        = module.surroundings.key_vault_id
  alert_email         = var.alert_email

  status_application_id = var.status_application_id

  clusters = {
    (var.cluster) = {
      oidc_issuer_url      = var.oidc_issuer_url
      kubeconfig_secret_id = "${module.surroundings.vault_uri}secrets/${var.cluster}"
      pool_groups          = { (local.workers) = ["vmss"] }
      linked_scopes        = [for id in [var.subnet_id, var.image_id] : regex("^/subscriptions/[^/]+/resourceGroups/[^/]+", id)]
    }
  }
}

resource "azurerm_resource_group" "workers" {
  name     = "${var.name}-workers"
  location = var.location
}

resource "azurerm_linux_virtual_machine_scale_set" "each" {
  #checkov:skip=CKV_AZURE_97:host encryption must be registered for in the subscription first; switch it on where it is
  #checkov:skip=CKV_AZURE_179:the image brings what it needs; an agent is the user's choice
  for_each = { spot = "Spot", regular = "Regular" }

  name                   = each.key
  resource_group_name    = azurerm_resource_group.workers.name
  location               = var.location
  sku                    = "Standard_D4s_v5"
  priority               = each.value
  eviction_policy        = each.value == "Spot" ? "Delete" : null
  max_bid_price          = each.value == "Spot" ? -1 : null
  instances              = 0
  overprovision          = false # machines beyond what was asked for would join and vanish
  single_placement_group = false
  upgrade_mode           = "Manual"
  source_image_id        = var.image_id
  admin_username         = "azureuser"

  disable_password_authentication = true

  admin_ssh_key {
    username   = "azureuser"
    public_key = var.ssh_public_key
  }
  os_disk {
    caching              = "ReadOnly"
    storage_account_type = "Premium_LRS"
  }
  network_interface {
    name    = "nic"
    primary = true
    ip_configuration {
      name      = "ip"
      primary   = true
      subnet_id = var.subnet_id
    }
  }
  identity {
    type = "SystemAssigned"
  }

  lifecycle {
    ignore_changes = [instances] # from here on Sluice's
  }
}
