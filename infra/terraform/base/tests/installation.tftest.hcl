mock_provider "azurerm" {
  source = "../mocks/azurerm"
}

mock_provider "azapi" {
  source = "../mocks/azapi"
}

variables {
  name                = "sluice"
  location            = "westeurope"
  resource_group_name = "sluice"
  key_vault_id        = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/vaults/providers/Microsoft.KeyVault/vaults/x"
  clusters = {
    training = {
      oidc_issuer_url      = "https://westeurope.oic.prod-aks.azure.com/x/"
      kubeconfig_secret_id = "https://x.vault.azure.net/secrets/training"
      pool_groups = {
        "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/pools" = ["vmss", "vm"]
      }
    }
    night-batch = {
      oidc_issuer_url      = "https://westeurope.oic.prod-aks.azure.com/y/"
      node_agent_namespace = "sluice-node-agent"
      kubeconfig_secret_id = "https://x.vault.azure.net/secrets/night"
      pool_groups = {
        "/subscriptions/00000000-0000-0000-0000-000000000009/resourceGroups/batch" = ["vmss"]
      }
      linked_scopes = ["/subscriptions/00000000-0000-0000-0000-000000000009/resourceGroups/network"]
    }
  }
}

run "every_cluster_has_a_topic_that_takes_no_keys" {
  assert {
    condition     = toset(keys(azurerm_eventgrid_topic.cluster)) == toset(["training", "night-batch"])
    error_message = "one topic per cluster"
  }
  assert {
    condition     = alltrue([for topic in azurerm_eventgrid_topic.cluster : !topic.local_auth_enabled && topic.input_schema == "CloudEventSchemaV1_0"])
    error_message = "topics take CloudEvents from Entra identities only"
  }
}

run "who_may_publish_is_told_by_service_account" {
  assert {
    condition = azurerm_federated_identity_credential.exporter["night-batch"].subject == "system:serviceaccount:sluice:sluice-exporter" && {
      for cluster, credential in azurerm_federated_identity_credential.node_agent : cluster => credential.subject
      } == {
      training    = "system:serviceaccount:sluice:sluice-node-agent"
      night-batch = "system:serviceaccount:sluice-node-agent:sluice-node-agent"
    }
    error_message = "an identity trusts one service account of its cluster"
  }
  assert {
    condition     = output.exporter_values["night-batch"].nodeAgent.namespace == "sluice-node-agent" && output.exporter_values["training"].nodeAgent.namespace == ""
    error_message = "the chart is told where the agent's identity holds"
  }
}

run "storage_has_no_keys" {
  assert {
    condition     = !azurerm_storage_account.state.shared_access_key_enabled && !azurerm_storage_account.state.allow_nested_items_to_be_public
    error_message = "no keys, nothing public"
  }
}

run "settings_are_those_the_app_reads" {
  assert {
    condition = toset(keys(azurerm_function_app_flex_consumption.app.app_settings)) == toset([
      "APPLICATIONINSIGHTS_AUTHENTICATION_STRING", "AZURE_CLIENT_ID", "AzureWebJobsStorage__accountName",
      "AzureWebJobsStorage__clientId", "AzureWebJobsStorage__credential", "PYTHON_ISOLATE_WORKER_DEPENDENCIES",
      "SLUICE_KUBECONFIG_NIGHT_BATCH", "SLUICE_KUBECONFIG_TRAINING", "SLUICE_STORAGE_ACCOUNT_URL", "TASKHUB_NAME",
    ])
    error_message = "settings of the app"
  }
  assert {
    condition     = azurerm_function_app_flex_consumption.app.app_settings["SLUICE_KUBECONFIG_TRAINING"] == "@Microsoft.KeyVault(SecretUri=https://x.vault.azure.net/secrets/training/)"
    error_message = "a kubeconfig is a Key Vault reference"
  }
}

run "rights_end_at_the_pools_groups" {
  assert {
    condition = toset([for right in azurerm_role_assignment.app_pools : right.scope]) == toset([
      "/subscriptions/00000000-0000-0000-0000-000000000001",
      "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/pools",
      "/subscriptions/00000000-0000-0000-0000-000000000009",
      "/subscriptions/00000000-0000-0000-0000-000000000009/resourceGroups/batch",
      "/subscriptions/00000000-0000-0000-0000-000000000009/resourceGroups/network",
    ])
    error_message = "scopes of the app's custom roles"
  }
  assert {
    condition     = alltrue([for key, right in azurerm_role_assignment.app_pools : startswith(key, "quota ") if !strcontains(right.scope, "/resourceGroups/")])
    error_message = "on a whole subscription quotas may be read, and nothing else"
  }
  assert {
    condition     = !contains([for role in azurerm_role_definition.custom : anytrue([for action in role.permissions[0].actions : strcontains(action, "*")])], true)
    error_message = "no wildcard in any role"
  }
}

run "only_roles_of_kinds_in_use_are_made" {
  assert {
    condition     = toset(keys(azurerm_role_definition.custom)) == toset(["vmss", "vm", "linked", "quota"])
    error_message = "no cluster has AKS pools"
  }
}

run "nothing_is_kept_warm_unless_asked_for" {
  assert {
    condition     = length(azurerm_function_app_flex_consumption.app.always_ready) == 0
    error_message = "always-ready instances are a choice"
  }
}

run "orchestrations_and_ingest_are_kept_warm_apart" {
  variables {
    always_ready        = 2
    always_ready_ingest = 1
  }
  assert {
    condition     = { for group in azurerm_function_app_flex_consumption.app.always_ready : group.name => group.instance_count } == { "durable" = 2, "function:ingest" = 1 }
    error_message = "each group scales by itself"
  }
}

run "every_alert_is_made_and_tells_whom_it_should" {
  variables {
    alert_email            = "oncall@example.org"
    alert_action_group_ids = ["/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/on-call/providers/Microsoft.Insights/actionGroups/pager"]
  }
  assert {
    condition     = toset(keys(azurerm_monitor_scheduled_query_rules_alert_v2.log)) == toset(["dead-letters", "exporter-silent", "no-sweep", "refused-pools-file", "stuck-orchestrations", "throttling", "unserved-pods"])
    error_message = "alerts on the logs"
  }
  assert {
    condition     = alltrue([for alert in azurerm_monitor_scheduled_query_rules_alert_v2.log : length(alert.action[0].action_groups) == 2])
    error_message = "mail, and who was there already"
  }
  assert {
    condition     = toset(keys(azurerm_monitor_metric_alert.topic)) == toset(["training dropped", "training undelivered", "night-batch dropped", "night-batch undelivered"])
    error_message = "alerts on each topic"
  }
  assert {
    condition     = alltrue([for alert in azurerm_monitor_metric_alert.topic : length(alert.action) == 2])
    error_message = "mail, and who was there already"
  }
}

run "without_a_receiver_alerts_are_made_all_the_same" {
  assert {
    condition     = length(azurerm_monitor_action_group.mail) == 0 && length(azurerm_monitor_scheduled_query_rules_alert_v2.log) == 7
    error_message = "seen in the portal"
  }
}

run "the_dashboard_looks_at_the_apps_own_workspace" {
  assert {
    condition     = jsondecode(azurerm_application_insights_workbook.overview.data_json).fallbackResourceIds == [azurerm_log_analytics_workspace.logs.id]
    error_message = "queries without a workspace of their own go to this one"
  }
}

run "a_scheduler_is_a_choice" {
  variables {
    durable_task_scheduler = true
  }
  assert {
    condition     = startswith(azurerm_function_app_flex_consumption.app.app_settings["DURABLE_TASK_SCHEDULER_CONNECTION_STRING"], "Endpoint=https://x.westeurope.durabletask.io;Authentication=ManagedIdentity")
    error_message = "the app is told where the scheduler is"
  }
  assert {
    condition     = azapi_resource.task_hub[0].name == azurerm_function_app_flex_consumption.app.app_settings["TASKHUB_NAME"]
    error_message = "the hub is the one that host.json names"
  }
}

run "bad_values_are_refused_together" {
  command = plan
  variables {
    name                   = "Sluice!"
    location               = "West Europe"
    resource_group_name    = "/subscriptions/x/resourceGroups/sluice"
    alert_email            = "somebody"
    alert_action_group_ids = ["pager"]
    always_ready_ingest    = -1
    always_ready           = 1.5
    maximum_instances      = 0
    log_retention_days     = 3
    instance_memory_mb     = 1000
    clusters = {
      "Training" = {
        oidc_issuer_url      = "http://x"
        kubeconfig_secret_id = "secret"
        pool_groups          = { "pools" = ["aks"] }
      }
    }
  }
  expect_failures = [
    var.name, var.location, var.resource_group_name, var.alert_email, var.alert_action_group_ids,
    var.always_ready, var.always_ready_ingest, var.maximum_instances, var.log_retention_days, var.instance_memory_mb, var.clusters,
  ]
}

run "a_public_api_server_needs_no_network" {
  assert {
    condition     = length(azurerm_virtual_network.app) == 0 && length(azurerm_nat_gateway.outbound) == 0 && azurerm_function_app_flex_consumption.app.virtual_network_subnet_id == null
    error_message = "nothing is made that nobody needs"
  }
  assert {
    condition     = output.outbound_address == "" && output.network_id == ""
    error_message = "there is no fixed address"
  }
}

run "authorised_ranges_see_one_fixed_address" {
  variables {
    api_server_access = "authorised-ranges"
  }
  assert {
    condition     = output.outbound_address == "20.0.0.7" && azurerm_public_ip.outbound[0].allocation_method == "Static"
    error_message = "the address is told, and stays"
  }
  assert {
    condition     = azurerm_function_app_flex_consumption.app.virtual_network_subnet_id == azurerm_subnet.app[0].id && azurerm_subnet_nat_gateway_association.app[0].subnet_id == azurerm_subnet.app[0].id
    error_message = "the app leaves by the subnet that the gateway serves"
  }
  assert {
    condition     = !azurerm_subnet.app[0].default_outbound_access_enabled && azurerm_subnet.app[0].delegation[0].service_delegation[0].name == "Microsoft.App/environments"
    error_message = "there is no other way out, and Flex Consumption takes the subnet"
  }
}

run "private_api_servers_are_reached_from_a_subnet_that_is_there" {
  variables {
    api_server_access    = "private"
    subnet_id            = "/subscriptions/00000000-0000-0000-0000-000000000009/resourceGroups/network/providers/Microsoft.Network/virtualNetworks/hub/subnets/sluice"
    private_dns_zone_ids = ["/subscriptions/00000000-0000-0000-0000-000000000009/resourceGroups/network/providers/Microsoft.Network/privateDnsZones/x.privatelink.westeurope.azmk8s.io"]
  }
  assert {
    condition     = length(azurerm_virtual_network.app) == 0 && azurerm_function_app_flex_consumption.app.virtual_network_subnet_id == var.subnet_id
    error_message = "the app joins the subnet, and no network is made"
  }
  assert {
    condition     = alltrue([for link in azurerm_private_dns_zone_virtual_network_link.api_servers : endswith(link.virtual_network_id, "/virtualNetworks/hub")]) && output.network_id == "/subscriptions/00000000-0000-0000-0000-000000000009/resourceGroups/network/providers/Microsoft.Network/virtualNetworks/hub"
    error_message = "the subnet's network is told the server's name"
  }
}

run "on_aks_the_app_is_itself_and_no_secret_is_needed" {
  variables {
    key_vault_id = null
    clusters = {
      training = {
        oidc_issuer_url = "https://westeurope.oic.prod-aks.azure.com/x/"
        entra           = { server = "https://x.hcp.westeurope.azmk8s.io:443", ca_certificate = base64encode("-----BEGIN CERTIFICATE-----") }
        pool_groups     = { "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/pools" = ["aks"] }
      }
    }
  }
  assert {
    condition = jsondecode(azurerm_function_app_flex_consumption.app.app_settings["SLUICE_KUBECONFIG_TRAINING"]) == {
      apiVersion      = "v1"
      kind            = "Config"
      current-context = "training"
      clusters        = [{ name = "training", cluster = { server = "https://x.hcp.westeurope.azmk8s.io:443", certificate-authority-data = base64encode("-----BEGIN CERTIFICATE-----") } }]
      contexts        = [{ name = "training", context = { cluster = "training", user = "app" } }]
      users = [{ name = "app", user = { exec = {
        apiVersion = "client.authentication.k8s.io/v1beta1"
        command    = "kubelogin"
        args       = ["get-token", "--login", "msi", "--server-id", "6dae42f8-4368-4678-94ff-3960e28e3630"]
      } } }]
    }
    error_message = "an address, a CA, and how to get a token: nothing secret"
  }
  assert {
    condition     = length(azurerm_role_assignment.app_vault) == 0
    error_message = "and no vault"
  }
}

run "the_status_page_takes_entra_if_told_and_keys_only_if_asked" {
  variables {
    status_application_id = "00000000-0000-0000-0000-00000000000e"
  }
  assert {
    condition     = azurerm_function_app_flex_consumption.app.app_settings["SLUICE_ENTRA_APPLICATION"] == "00000000-0000-0000-0000-00000000000e" && azurerm_function_app_flex_consumption.app.app_settings["SLUICE_ENTRA_TENANT"] == "00000000-0000-0000-0000-000000000002"
    error_message = "whose tokens are taken"
  }
  assert {
    condition     = !contains(keys(azurerm_function_app_flex_consumption.app.app_settings), "SLUICE_FUNCTION_KEYS")
    error_message = "keys are off by default"
  }
}

run "ways_that_contradict_each_other_are_refused" {
  command = plan
  variables {
    subnet_id             = "/subscriptions/x/resourceGroups/y/providers/Microsoft.Network/virtualNetworks/hub/subnets/an_underscore"
    network_cidr          = "10.0.0.0/29"
    private_dns_zone_ids  = ["azmk8s.io"]
    status_application_id = "my-app"
    clusters = {
      training = {
        oidc_issuer_url      = "https://x"
        entra                = { server = "http://x", ca_certificate = "none" }
        kubeconfig_secret_id = "https://x.vault.azure.net/secrets/training"
        pool_groups          = { "/subscriptions/x/resourceGroups/y" = ["aks"] }
      }
    }
  }
  expect_failures = [
    var.subnet_id, var.network_cidr, var.private_dns_zone_ids, var.status_application_id, var.clusters,
  ]
}

run "keys_are_not_given_beside_entra" {
  command = plan
  variables {
    status_application_id = "00000000-0000-0000-0000-00000000000e"
    function_keys         = true
  }
  expect_failures = [var.function_keys]
}

run "a_vault_is_needed_where_a_kubeconfig_lies" {
  command = plan
  variables {
    key_vault_id = null
  }
  expect_failures = [var.key_vault_id]
}

run "a_vault_is_told_by_its_id" {
  command = plan
  variables {
    key_vault_id = "vault"
  }
  expect_failures = [var.key_vault_id]
}
