# Who may do what. Custom roles come from ../../roles, one action per line with the call that needs it.

locals {
  role_files = {
    vmss      = "scale-sets"
    vm        = "virtual-machines"
    aks       = "agent-pools"
    aks-nodes = "agent-pool-machines"
    linked    = "linked-resources"
    quota     = "quota-reader"
  }
  kinds = setunion(["linked", "quota"], flatten([for cluster in var.clusters : [for kinds in values(cluster.pool_groups) : tolist(kinds)]]))
  roles = { for key, file in local.role_files : key => jsondecode(file("${path.module}/../../roles/${file}.json")) if contains(local.kinds, key) }

  pool_rights = merge([
    for cluster in var.clusters : merge([
      for group, kinds in cluster.pool_groups : { for kind in kinds : "${kind} ${group}" => { role = kind, scope = group } }
    ]...)
  ]...)
  # Not where AKS keeps its nodes: there nothing is ever written.
  linked_rights = merge([
    for cluster in var.clusters : {
      for scope in setunion([for group, kinds in cluster.pool_groups : group if kinds != toset(["aks-nodes"])], cluster.linked_scopes) :
      "linked ${scope}" => { role = "linked", scope = scope }
    }
  ]...)
  subscriptions = toset(flatten([
    for cluster in var.clusters : [for group in keys(cluster.pool_groups) : regex("^/subscriptions/[^/]+", group)]
  ]))
  quota_rights = { for id in local.subscriptions : "quota ${id}" => { role = "quota", scope = id } }
  app_rights   = merge(local.pool_rights, local.linked_rights, local.quota_rights)
  home         = "/subscriptions/${data.azurerm_client_config.current.subscription_id}"
}

resource "azurerm_role_definition" "custom" {
  for_each = local.roles

  name              = "${each.value.name} (${var.name})"
  description       = each.value.description
  scope             = contains(local.subscriptions, local.home) ? local.home : sort(local.subscriptions)[0]
  assignable_scopes = sort(local.subscriptions)

  permissions {
    actions = keys(each.value.actions)
  }
}

resource "azurerm_role_assignment" "app_pools" {
  for_each = local.app_rights

  scope              = each.value.scope
  role_definition_id = azurerm_role_definition.custom[each.value.role].role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.app.principal_id
  principal_type     = "ServicePrincipal"
}

# What the Functions host itself asks for on an account without keys.
resource "azurerm_role_assignment" "app_storage" {
  for_each = toset(["Storage Blob Data Owner", "Storage Queue Data Contributor", "Storage Table Data Contributor"])

  scope                = azurerm_storage_account.state.id
  role_definition_name = each.value
  principal_id         = azurerm_user_assigned_identity.app.principal_id
  principal_type       = "ServicePrincipal"
}

resource "azurerm_role_assignment" "app_vault" {
  count = local.uses_vault ? 1 : 0

  scope                = var.key_vault_id
  role_definition_name = "Key Vault Secrets User"
  principal_id         = azurerm_user_assigned_identity.app.principal_id
  principal_type       = "ServicePrincipal"
}

resource "azurerm_role_assignment" "app_insights" {
  scope                = azurerm_application_insights.app.id
  role_definition_name = "Monitoring Metrics Publisher"
  principal_id         = azurerm_user_assigned_identity.app.principal_id
  principal_type       = "ServicePrincipal"
}

resource "azurerm_role_assignment" "app_scheduler" {
  count = var.durable_task_scheduler ? 1 : 0

  scope                = azapi_resource.scheduler[0].id
  role_definition_name = "Durable Task Data Contributor"
  principal_id         = azurerm_user_assigned_identity.app.principal_id
  principal_type       = "ServicePrincipal"
}

resource "azurerm_role_assignment" "exporter_topic" {
  for_each = var.clusters

  scope                = azurerm_eventgrid_topic.cluster[each.key].id
  role_definition_name = "EventGrid Data Sender"
  principal_id         = azurerm_user_assigned_identity.exporter[each.key].principal_id
  principal_type       = "ServicePrincipal"
}

resource "azurerm_role_assignment" "node_agent_topic" {
  for_each = var.clusters

  scope                = azurerm_eventgrid_topic.cluster[each.key].id
  role_definition_name = "EventGrid Data Sender"
  principal_id         = azurerm_user_assigned_identity.node_agent[each.key].principal_id
  principal_type       = "ServicePrincipal"
}

# Large snapshots go through storage; the exporter reads its thresholds from the pools file.
resource "azurerm_role_assignment" "exporter_snapshots" {
  for_each = var.clusters

  scope                = azurerm_storage_container.each["snapshots-${each.key}"].id
  role_definition_name = "Storage Blob Data Contributor"
  principal_id         = azurerm_user_assigned_identity.exporter[each.key].principal_id
  principal_type       = "ServicePrincipal"
}

resource "azurerm_role_assignment" "exporter_config" {
  for_each = var.clusters

  scope                = azurerm_storage_container.each["config"].id
  role_definition_name = "Storage Blob Data Reader"
  principal_id         = azurerm_user_assigned_identity.exporter[each.key].principal_id
  principal_type       = "ServicePrincipal"
}

resource "azurerm_role_assignment" "topic_dead_letters" {
  for_each = var.clusters

  scope                = azurerm_storage_container.each["dead-letters"].id
  role_definition_name = "Storage Blob Data Contributor"
  principal_id         = azurerm_eventgrid_topic.cluster[each.key].identity[0].principal_id
  principal_type       = "ServicePrincipal"
}
