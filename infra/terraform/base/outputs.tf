output "app_name" {
  description = "For `func azure functionapp publish`."
  value       = azurerm_function_app_flex_consumption.app.name
}

output "app_id" {
  description = "For the stage `wire`."
  value       = azurerm_function_app_flex_consumption.app.id
}

output "app_principal_id" {
  description = "The app's identity, for role bindings in clusters that know Entra identities."
  value       = azurerm_user_assigned_identity.app.principal_id
}

output "outbound_address" {
  description = "With authorised-ranges: the one address that the app comes from, for the ranges of the API servers. Empty otherwise."
  value       = try(azurerm_public_ip.outbound[0].ip_address, "")
}

output "network_id" {
  description = "The app's network, for peerings; empty with public access."
  value       = try(coalesce(local.network_id), "")
}

output "app_hostname" {
  description = "Where the status page is."
  value       = azurerm_function_app_flex_consumption.app.default_hostname
}

output "storage_account_id" {
  description = "For the stage `wire`: dead letters go there."
  value       = azurerm_storage_account.state.id
}

output "storage_url" {
  description = "Blob endpoint; the pools file of a cluster goes to config/<cluster>.yaml below it."
  value       = trimsuffix(azurerm_storage_account.state.primary_blob_endpoint, "/")
}

output "topics" {
  description = "Per cluster: the topic's id for the stage `wire`."
  value       = { for name, topic in azurerm_eventgrid_topic.cluster : name => topic.id }
}

output "rights" {
  description = "What the app may do in Azure besides its own resources: scopes by custom role."
  value       = { for key, role in local.roles : role.name => sort([for right in local.app_rights : right.scope if right.role == key]) }
}

output "workspace_id" {
  description = "Where logs are, for queries of one's own."
  value       = azurerm_log_analytics_workspace.logs.id
}

output "dashboard_id" {
  description = "The workbook that shows what Sluice sees and does."
  value       = azurerm_application_insights_workbook.overview.id
}

output "scheduler_endpoint" {
  description = "Of the Durable Task Scheduler; empty without one."
  value       = local.scheduler_endpoint
}

output "exporter_values" {
  description = "Per cluster: values for the Helm chart of the exporter. Nothing of it is secret."
  value = {
    for name, each in var.clusters : name => {
      cluster       = name
      topicEndpoint = azurerm_eventgrid_topic.cluster[name].endpoint
      storageUrl    = trimsuffix(azurerm_storage_account.state.primary_blob_endpoint, "/")
      clientId      = azurerm_user_assigned_identity.exporter[name].client_id
      tenantId      = data.azurerm_client_config.current.tenant_id
      nodeAgent = {
        clientId  = azurerm_user_assigned_identity.node_agent[name].client_id
        namespace = each.node_agent_namespace == null ? "" : each.node_agent_namespace
      }
    }
  }
}
