# The same in every example: where it all goes, and the two stages.

provider "azurerm" {
  subscription_id     = var.subscription_id
  storage_use_azuread = true # there are no keys to use instead

  features {
    application_insights {
      disable_generated_rule = true
    }
    resource_group {
      prevent_deletion_if_contains_resources = false # Application Insights leaves an action group of its own behind
    }
  }
}

provider "azapi" {
  subscription_id = var.subscription_id
}

module "surroundings" {
  source = "../surroundings"

  name     = var.name
  location = var.location
  vault    = local.vault
}

data "azurerm_client_config" "current" {}

# Whoever applies uploads the pools file.
resource "azurerm_role_assignment" "operator_config" {
  scope                = module.base.storage_account_id
  role_definition_name = "Storage Blob Data Contributor"
  principal_id         = data.azurerm_client_config.current.object_id
}

# Not before the app was published and answers (`sluice doctor --wait-for ingest`).
module "wire" {
  source = "../../wire"
  count  = var.published ? 1 : 0

  name               = var.name
  app_id             = module.base.app_id
  topics             = module.base.topics
  storage_account_id = module.base.storage_account_id
}

variable "subscription_id" {
  description = "Where Sluice and the pools live."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", var.subscription_id))
    error_message = "subscription_id: the bare id, as `az account show --query id` prints it."
  }
}

variable "name" {
  description = "Name of the installation."
  type        = string
  default     = "sluice"
  nullable    = false
}

variable "location" {
  description = "Region of the cluster, and of Sluice."
  type        = string
  nullable    = false
}

variable "cluster" {
  description = "The cluster's name, as its pools file says it."
  type        = string
  default     = "training"
  nullable    = false
}

variable "published" {
  description = "Whether the app was published and answers: then events are led to it."
  type        = bool
  default     = false
  nullable    = false
}

variable "status_application_id" {
  description = "Client id of the Entra application whose tokens open `sluice status` and the like (docs/secrets.md). Without it they are closed."
  type        = string
  default     = null
}

variable "alert_email" {
  description = "Who is told when something needs a look."
  type        = string
  default     = null
}
