mock_provider "azurerm" {}

variables {
  name               = "sluice"
  app_id             = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Web/sites/sluice-1"
  storage_account_id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.Storage/storageAccounts/x"
  topics = {
    training = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.EventGrid/topics/sluice-training"
  }
}

run "events_of_a_cluster_reach_ingest_and_die_in_the_dead_letters" {
  assert {
    condition     = endswith(azurerm_eventgrid_event_subscription.cluster["training"].azure_function_endpoint[0].function_id, "/functions/ingest")
    error_message = "the subscription ends at ingest"
  }
  assert {
    condition     = azurerm_eventgrid_event_subscription.cluster["training"].storage_blob_dead_letter_destination[0].storage_blob_container_name == "dead-letters"
    error_message = "undeliverable events are kept"
  }
  assert {
    condition     = azurerm_eventgrid_event_subscription.cluster["training"].retry_policy[0].event_time_to_live == 60
    error_message = "an hour of attempts"
  }
  assert {
    condition     = length(azurerm_eventgrid_system_topic.health) == 0
    error_message = "Azure's own events are a choice"
  }
}

run "eviction_notices_of_azure_are_a_choice" {
  variables {
    eviction_notices = {
      subscription_id     = "/subscriptions/00000000-0000-0000-0000-000000000001"
      resource_group_name = "sluice"
    }
  }
  assert {
    condition     = one(azurerm_eventgrid_system_topic.health).topic_type == "Microsoft.ResourceNotifications.HealthResources"
    error_message = "the system topic about VMs"
  }
}

run "bad_values_are_refused_together" {
  command = plan
  variables {
    name               = "Sluice!"
    app_id             = "sluice"
    storage_account_id = "sluice"
    topics             = { training = "sluice-training" }
    eviction_notices   = { subscription_id = "here", resource_group_name = "sluice" }
  }
  expect_failures = [var.name, var.app_id, var.storage_account_id, var.topics, var.eviction_notices]
}
