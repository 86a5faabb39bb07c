# One topic per cluster: whoever may publish to it speaks for that cluster and no other.

resource "azurerm_eventgrid_topic" "cluster" {
  #checkov:skip=CKV_AZURE_193:exporters publish from clusters in any network, with Entra identities only; a private endpoint is the user's choice
  for_each = var.clusters

  name                = "${var.name}-${each.key}"
  resource_group_name = var.resource_group_name
  location            = var.location
  input_schema        = "CloudEventSchemaV1_0"
  local_auth_enabled  = false
  tags                = local.tags

  # Undeliverable events are written by the topic's own identity (see ../wire).
  identity {
    type = "SystemAssigned"
  }

  lifecycle {
    precondition {
      condition     = length("${var.name}-${each.key}") <= 50
      error_message = "clusters: ${var.name}-${each.key} is longer than the 50 characters of a topic's name."
    }
  }
}

resource "azurerm_user_assigned_identity" "exporter" {
  for_each = var.clusters

  name                = "${var.name}-${each.key}-exporter"
  resource_group_name = var.resource_group_name
  location            = var.location
  tags                = local.tags
}

# The exporter proves who it is by its service account's token: no secret lies in the cluster.
resource "azurerm_federated_identity_credential" "exporter" {
  for_each = var.clusters

  name                      = "exporter"
  user_assigned_identity_id = azurerm_user_assigned_identity.exporter[each.key].id
  audience                  = ["api://AzureADTokenExchange"]
  issuer                    = each.value.oidc_issuer_url
  subject                   = "system:serviceaccount:${each.value.exporter_namespace}:${each.value.exporter_service_account}"
}

# The node agent runs beside other people's pods on Spot nodes: an identity of its own, which may send and nothing else.
resource "azurerm_user_assigned_identity" "node_agent" {
  for_each = var.clusters

  name                = "${var.name}-${each.key}-node-agent"
  resource_group_name = var.resource_group_name
  location            = var.location
  tags                = local.tags
}

resource "azurerm_federated_identity_credential" "node_agent" {
  for_each = var.clusters

  name                      = "node-agent"
  user_assigned_identity_id = azurerm_user_assigned_identity.node_agent[each.key].id
  audience                  = ["api://AzureADTokenExchange"]
  issuer                    = each.value.oidc_issuer_url
  subject                   = "system:serviceaccount:${coalesce(each.value.node_agent_namespace, each.value.exporter_namespace)}:sluice-node-agent"
}
