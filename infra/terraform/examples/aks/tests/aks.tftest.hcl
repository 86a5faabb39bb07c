mock_provider "azurerm" {
  source = "../../mocks/azurerm"
}

mock_provider "azapi" {
  source = "../../mocks/azapi"
}

variables {
  subscription_id = "00000000-0000-0000-0000-000000000001"
  location        = "westeurope"
  api_server_ca   = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCngKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
  aks_cluster_id  = "/subscriptions/00000000-0000-0000-0000-000000000001/resourcegroups/aks/providers/Microsoft.ContainerService/managedClusters/training"
}

run "it_can_be_planned_in_an_empty_subscription" {
  command = plan
  assert {
    condition     = length(module.wire) == 0
    error_message = "nothing is wired before the app was published"
  }
}

run "rights_end_where_the_pools_do" {
  assert {
    condition = { for role, scopes in module.base.rights : role => [for scope in scopes : basename(scope)] if role != "Sluice quota reader" } == {
      "Sluice agent pools"         = ["aks"]
      "Sluice agent pool machines" = ["MC_aks_training_westeurope"]
      "Sluice linked resources"    = ["aks"]
    }
    error_message = "scopes of the app's custom roles"
  }
}

run "machines_are_sluices_to_count" {
  assert {
    condition     = alltrue([for pool in azurerm_kubernetes_cluster_node_pool.each : pool.node_count == 0])
    error_message = "none to begin with"
  }
  assert {
    condition     = toset(keys(azurerm_kubernetes_cluster_node_pool.each)) == toset(["spot", "regular"])
    error_message = "the pools of the pools file"
  }
}

run "events_are_led_to_the_app_once_it_was_published" {
  variables {
    published = true
  }
  assert {
    condition     = length(module.wire) == 1
    error_message = "wired"
  }
}

run "bad_values_are_refused" {
  command = plan
  variables {
    subscription_id = "mine"
    aks_cluster_id  = "training"
  }
  expect_failures = [var.subscription_id, var.aks_cluster_id]
}
