# Stage two of two: events begin to flow. Apply it once the app was published and answers; destroy it first.

locals {
  ingest = "${var.app_id}/functions/ingest"
}

resource "azurerm_eventgrid_event_subscription" "cluster" {
  for_each = var.topics

  name                  = "sluice-ingest"
  scope                 = each.value
  event_delivery_schema = "CloudEventSchemaV1_0"
  included_event_types = [
    "sluice.node.evicting",
    "sluice.node.idle",
    "sluice.node.joined",
    "sluice.pods.unschedulable",
  ]

  azure_function_endpoint {
    function_id                       = local.ingest
    max_events_per_batch              = 10
    preferred_batch_size_in_kilobytes = 256
  }

  # An event is a reason to look, and maintenance looks anyway: an hour of attempts is ample.
  retry_policy {
    max_delivery_attempts = 30
    event_time_to_live    = 60
  }

  dead_letter_identity {
    type = "SystemAssigned"
  }
  storage_blob_dead_letter_destination {
    storage_account_id          = var.storage_account_id
    storage_blob_container_name = "dead-letters"
  }
}

# What Azure says of evicted Spot VMs after the fact. A preview of Azure's, hence a choice.
resource "azurerm_eventgrid_system_topic" "health" {
  count = var.eviction_notices == null ? 0 : 1

  name                = "${var.name}-vm-health"
  resource_group_name = var.eviction_notices.resource_group_name
  location            = "Global"
  source_resource_id  = var.eviction_notices.subscription_id
  topic_type          = "Microsoft.ResourceNotifications.HealthResources"
}

resource "azurerm_eventgrid_system_topic_event_subscription" "evictions" {
  count = var.eviction_notices == null ? 0 : 1

  name                  = "sluice-evictions"
  system_topic          = azurerm_eventgrid_system_topic.health[0].name
  resource_group_name   = var.eviction_notices.resource_group_name
  event_delivery_schema = "CloudEventSchemaV1_0"
  included_event_types  = ["Microsoft.ResourceNotifications.HealthResources.ResourceAnnotated"]

  azure_function_endpoint {
    function_id = local.ingest
  }

  # No dead letters: what such an event tells, the next sweep sees.
  retry_policy {
    max_delivery_attempts = 30
    event_time_to_live    = 60
  }

  advanced_filter {
    string_in {
      key    = "data.resourceInfo.properties.annotationName"
      values = ["VirtualMachinePreempted"]
    }
  }
}
