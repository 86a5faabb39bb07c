# Stage one of two: everything but the Event Grid subscriptions, which need the published function (see ../wire).

data "azurerm_client_config" "current" {}

locals {
  tags = merge(var.tags, { "sluice.io/installation" = var.name })

  # Storage account names are global, without hyphens: the hash tells installations of one name apart.
  storage_name = "${substr(replace(var.name, "-", ""), 0, 14)}${substr(sha1("${data.azurerm_client_config.current.subscription_id}/${var.resource_group_name}/${var.name}"), 0, 8)}"
  app_name     = "${var.name}-${substr(sha1("${data.azurerm_client_config.current.subscription_id}/${var.resource_group_name}"), 0, 6)}"

  resource_group_id = "/subscriptions/${data.azurerm_client_config.current.subscription_id}/resourceGroups/${var.resource_group_name}"
}

resource "azurerm_user_assigned_identity" "app" {
  name                = "${var.name}-app"
  resource_group_name = var.resource_group_name
  location            = var.location
  tags                = local.tags
}
