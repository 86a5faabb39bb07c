variable "name" {
  description = "Name of the installation, as in `base`."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,14}[a-z0-9]$", var.name))
    error_message = "name: 3 to 16 lower-case letters, digits and hyphens, a letter first and no hyphen last."
  }
}

variable "app_id" {
  description = "Output `app_id` of `base`."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.Web/sites/[^/]+$", var.app_id))
    error_message = "app_id: the id of a function app, as `base` prints it."
  }
}

variable "topics" {
  description = "Output `topics` of `base`: ids of topics by cluster."
  type        = map(string)
  nullable    = false

  validation {
    condition     = length(var.topics) > 0
    error_message = "topics: name at least one."
  }
  validation {
    condition = alltrue([
      for id in values(var.topics) : can(regex("^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.EventGrid/topics/[^/]+$", id))
    ])
    error_message = "topics: ids of topics by cluster, as `base` prints them."
  }
}

variable "storage_account_id" {
  description = "Output `storage_account_id` of `base`."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.Storage/storageAccounts/[^/]+$", var.storage_account_id))
    error_message = "storage_account_id: the id of a storage account, as `base` prints it."
  }
}

variable "eviction_notices" {
  description = <<-EOT
    Take Azure's own events about preempted VMs, too, for this subscription (its id, /subscriptions/<id>). The system topic
    lies in the named resource group. Who applies needs
    Microsoft.ResourceNotifications/systemTopics/subscribeToHealthResources/action. Null: no.
  EOT
  type = object({
    subscription_id     = string
    resource_group_name = string
  })
  default = null

  validation {
    condition     = var.eviction_notices == null || can(regex("^/subscriptions/[^/]+$", var.eviction_notices.subscription_id))
    error_message = "eviction_notices: subscription_id is /subscriptions/<id>."
  }
}
