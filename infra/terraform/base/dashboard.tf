# One page of what Sluice sees and does, in the portal under the workspace's workbooks.

resource "azurerm_application_insights_workbook" "overview" {
  name                = uuidv5("url", "${local.resource_group_id}/${var.name}/overview")
  display_name        = "Sluice ${var.name}"
  resource_group_name = var.resource_group_name
  location            = var.location
  source_id           = lower(azurerm_log_analytics_workspace.logs.id)
  tags                = local.tags

  data_json = jsonencode(merge(
    jsondecode(file("${path.module}/../../monitoring/workbook.json")),
    { fallbackResourceIds = [azurerm_log_analytics_workspace.logs.id] },
  ))
}
