# Durable Task Scheduler, if wanted: azurerm knows no resource for it yet.

resource "azapi_resource" "scheduler" {
  count = var.durable_task_scheduler ? 1 : 0

  type                      = "Microsoft.DurableTask/schedulers@2025-11-01"
  name                      = local.app_name
  parent_id                 = local.resource_group_id
  location                  = var.location
  tags                      = local.tags
  schema_validation_enabled = false
  response_export_values    = ["properties.endpoint"]

  body = {
    properties = {
      ipAllowlist = ["0.0.0.0/0"] # whoever comes needs an Entra identity with a role on it
      sku         = { name = "Consumption" }
    }
  }
}

resource "azapi_resource" "task_hub" {
  count = var.durable_task_scheduler ? 1 : 0

  type                      = "Microsoft.DurableTask/schedulers/taskHubs@2025-11-01"
  name                      = local.hub_name
  parent_id                 = azapi_resource.scheduler[0].id
  schema_validation_enabled = false
  body                      = { properties = {} }
}

locals {
  hub_name = replace(var.name, "-", "")

  # azapi 2 answers with an object, azapi 1 with its text.
  scheduler_endpoint = var.durable_task_scheduler ? try(
    azapi_resource.scheduler[0].output.properties.endpoint,
    jsondecode(azapi_resource.scheduler[0].output).properties.endpoint,
  ) : ""

  # With a scheduler, host.json's storage provider is replaced by settings; the package stays the same.
  scheduler_settings = var.durable_task_scheduler ? {
    "AzureFunctionsJobHost__extensions__durableTask__storageProvider__type"                 = "azureManaged"
    "AzureFunctionsJobHost__extensions__durableTask__storageProvider__connectionStringName" = "DURABLE_TASK_SCHEDULER_CONNECTION_STRING"
    "DURABLE_TASK_SCHEDULER_CONNECTION_STRING"                                              = "Endpoint=${local.scheduler_endpoint};Authentication=ManagedIdentity;ClientID=${azurerm_user_assigned_identity.app.client_id}"
  } : {}
}
