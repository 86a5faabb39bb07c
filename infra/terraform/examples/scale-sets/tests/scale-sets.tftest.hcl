mock_provider "azurerm" {
  source = "../../mocks/azurerm"
}

mock_provider "azapi" {
  source = "../../mocks/azapi"
}

variables {
  subscription_id = "00000000-0000-0000-0000-000000000001"
  location        = "westeurope"
  oidc_issuer_url = "https://oidc.example.org/training"
  subnet_id       = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/network/providers/Microsoft.Network/virtualNetworks/v/subnets/workers"
  image_id        = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/images/providers/Microsoft.Compute/images/worker"
  ssh_public_key  = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQDAhsEe5i/Lzztt4PXfNIPF7lxG3pZqCxxyHo+9z4vikpOWkbmVj9e2jzVLK+0iAdGrGx+a+DI/4Xj6X+bjMbfWvBSUDGw4edDE0kJ6oIKsobUKG7qzCJDN7qhwlWiTwmfR1I3zgSOQt+YKKa2KT+AiW8unHh+Cu0CpOXLc81AwOsgdfAPWDUpwrc0w5Z/qeSLAi/turm5VZhme+p1R8OsDl1lc8jHtcSGD6VNcwix691LGZKq+4fI6IC5CYkFGrVh8SJMnduWNPdfIdNFMT8ApJHJjb6fq+tlDwZJ70/k4jUx0NnDDZe5fW6qO7PgaBiVOuctm4lctSa+W3Ordhfqr"
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
      "Sluice scale sets"       = ["sluice-workers"]
      "Sluice linked resources" = ["images", "network", "sluice-workers"]
    }
    error_message = "scopes of the app's custom roles"
  }
}

run "machines_are_sluices_to_count" {
  assert {
    condition     = alltrue([for pool in azurerm_linux_virtual_machine_scale_set.each : pool.instances == 0])
    error_message = "none to begin with"
  }
  assert {
    condition     = toset(keys(azurerm_linux_virtual_machine_scale_set.each)) == toset(["spot", "regular"])
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
    subnet_id       = "workers"
  }
  expect_failures = [var.subscription_id, var.subnet_id]
}
