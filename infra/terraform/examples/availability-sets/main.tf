# A cluster of one's own whose workers are single VMs in an availability set: Sluice makes and deletes them one by one,
# from a template that lies beside the pools file.
#
# The image must join the cluster by itself, fetching its token with the VM's identity.

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
  machine = templatefile("${path.module}/machine.json", {
    location            = var.location
    availability_set_id = azurerm_availability_set.workers.id
    subnet_id           = var.subnet_id
    image_id            = var.image_id
    ssh_public_key      = trimspace(var.ssh_public_key)
  })
  workers = "/subscriptions/${var.subscription_id}/resourceGroups/${azurerm_resource_group.workers.name}"
}

output "machine_template" {
  description = "The template of a VM: config/machine.json."
  value       = local.machine
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
      pool_groups          = { (local.workers) = ["vm"] }
      linked_scopes        = [for id in [var.subnet_id, var.image_id] : regex("^/subscriptions/[^/]+/resourceGroups/[^/]+", id)]
    }
  }
}

resource "azurerm_resource_group" "workers" {
  name     = "${var.name}-workers"
  location = var.location
}

resource "azurerm_availability_set" "workers" {
  name                = "workers"
  resource_group_name = azurerm_resource_group.workers.name
  location            = var.location
}
