resource "azurerm_service_plan" "app" {
  #checkov:skip=CKV_AZURE_225:Flex Consumption: an app of minutes; maintenance in another run heals what a lost zone interrupted
  #checkov:skip=CKV_AZURE_212:Flex Consumption scales from zero by design; always_ready is a variable
  name                = local.app_name
  resource_group_name = var.resource_group_name
  location            = var.location
  os_type             = "Linux"
  sku_name            = "FC1"
  tags                = local.tags
}

locals {
  kubeconfig_settings = {
    for name, cluster in var.clusters :
    "SLUICE_KUBECONFIG_${upper(replace(name, "-", "_"))}" => "@Microsoft.KeyVault(SecretUri=${trimsuffix(cluster.kubeconfig_secret_id, "/")}/)"
  }

  # With a scheduler, host.json's storage provider is replaced by settings; the package stays the same.
  scheduler_settings = var.durable_task_scheduler ? {
    "AzureFunctionsJobHost__extensions__durableTask__storageProvider__type"                 = "azureManaged"
    "AzureFunctionsJobHost__extensions__durableTask__storageProvider__connectionStringName" = "DURABLE_TASK_SCHEDULER_CONNECTION_STRING"
    "DURABLE_TASK_SCHEDULER_CONNECTION_STRING"                                              = "Endpoint=${local.scheduler_endpoint};Authentication=ManagedIdentity;ClientID=${azurerm_user_assigned_identity.app.client_id}"
  } : {}

  app_settings = merge(
    {
      "AzureWebJobsStorage__accountName"          = azurerm_storage_account.state.name
      "AzureWebJobsStorage__credential"           = "managedidentity"
      "AzureWebJobsStorage__clientId"             = azurerm_user_assigned_identity.app.client_id
      "APPLICATIONINSIGHTS_AUTHENTICATION_STRING" = "ClientId=${azurerm_user_assigned_identity.app.client_id};Authorization=AAD"
      "AZURE_CLIENT_ID"                           = azurerm_user_assigned_identity.app.client_id
      "PYTHON_ISOLATE_WORKER_DEPENDENCIES"        = "1"
      "SLUICE_STORAGE_ACCOUNT_URL"                = trimsuffix(azurerm_storage_account.state.primary_blob_endpoint, "/")
      "TASKHUB_NAME"                              = replace(var.name, "-", "")
    },
    local.kubeconfig_settings,
    local.scheduler_settings,
  )
}

resource "azurerm_function_app_flex_consumption" "app" {
  name                = local.app_name
  resource_group_name = var.resource_group_name
  location            = var.location
  service_plan_id     = azurerm_service_plan.app.id

  runtime_name           = "python"
  runtime_version        = "3.11"
  instance_memory_in_mb  = var.instance_memory_mb
  maximum_instance_count = var.maximum_instances

  storage_container_type            = "blobContainer"
  storage_container_endpoint        = "${azurerm_storage_account.state.primary_blob_endpoint}${azurerm_storage_container.each["package"].name}"
  storage_authentication_type       = "UserAssignedIdentity"
  storage_user_assigned_identity_id = azurerm_user_assigned_identity.app.id

  https_only                                     = true
  webdeploy_publish_basic_authentication_enabled = false
  virtual_network_subnet_id                      = var.subnet_id
  app_settings                                   = local.app_settings
  tags                                           = local.tags

  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.app.id]
  }

  site_config {
    application_insights_connection_string = azurerm_application_insights.app.connection_string
    minimum_tls_version                    = "1.2"
  }

  dynamic "always_ready" {
    for_each = var.always_ready > 0 ? ["durable"] : []
    content {
      name           = always_ready.value
      instance_count = var.always_ready
    }
  }

  # Without these the app would start and be refused by its own storage.
  depends_on = [azurerm_role_assignment.app_storage]
}

# Key Vault references are resolved with this identity; azurerm has no argument for it on Flex Consumption.
resource "azapi_update_resource" "vault_identity" {
  type        = "Microsoft.Web/sites@2023-12-01"
  resource_id = azurerm_function_app_flex_consumption.app.id
  body        = jsonencode({ properties = { keyVaultReferenceIdentity = azurerm_user_assigned_identity.app.id } })
}

# Durable Task Scheduler: azurerm knows no resource for it yet.
resource "azapi_resource" "scheduler" {
  count = var.durable_task_scheduler ? 1 : 0

  type                      = "Microsoft.DurableTask/schedulers@2025-11-01"
  name                      = local.app_name
  parent_id                 = local.resource_group_id
  location                  = var.location
  tags                      = local.tags
  schema_validation_enabled = false
  response_export_values    = ["properties.endpoint"]

  body = jsonencode({
    properties = {
      ipAllowlist = ["0.0.0.0/0"]
      sku         = { name = "Consumption" }
    }
  })
}

resource "azapi_resource" "task_hub" {
  count = var.durable_task_scheduler ? 1 : 0

  type                      = "Microsoft.DurableTask/schedulers/taskHubs@2025-11-01"
  name                      = replace(var.name, "-", "")
  parent_id                 = azapi_resource.scheduler[0].id
  schema_validation_enabled = false
  body                      = jsonencode({ properties = {} })
}

locals {
  resource_group_id  = "/subscriptions/${data.azurerm_client_config.current.subscription_id}/resourceGroups/${var.resource_group_name}"
  scheduler_endpoint = var.durable_task_scheduler ? jsondecode(azapi_resource.scheduler[0].output).properties.endpoint : ""
}
