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
  uses_vault = anytrue([for each in var.clusters : each.entra == null])

  kubeconfig_settings = {
    for name, cluster in var.clusters :
    "SLUICE_KUBECONFIG_${upper(replace(name, "-", "_"))}" => (
      cluster.entra == null
      ? "@Microsoft.KeyVault(SecretUri=${trimsuffix(coalesce(cluster.kubeconfig_secret_id, "?"), "/")}/)"
      : jsonencode(local.entra_kubeconfigs[name])
    )
  }

  # What az aks get-credentials would write: where it has kubelogin fetch a token, the app fetches one for itself.
  entra_kubeconfigs = {
    for name, cluster in var.clusters : name => {
      apiVersion      = "v1"
      kind            = "Config"
      current-context = name
      clusters = [
        { name = name, cluster = { server = cluster.entra.server, certificate-authority-data = cluster.entra.ca_certificate } },
      ]
      users = [
        { name = "app", user = { exec = {
          apiVersion = "client.authentication.k8s.io/v1beta1"
          command    = "kubelogin"
          args       = ["get-token", "--login", "msi", "--server-id", cluster.entra.application_id]
        } } },
      ]
      contexts = [{ name = name, context = { cluster = name, user = "app" } }]
    } if cluster.entra != null
  }

  # Who may ask the app what it does, and stop it. With neither, nobody may.
  status_settings = merge(
    var.status_application_id == null ? {} : {
      "SLUICE_ENTRA_APPLICATION" = var.status_application_id
      "SLUICE_ENTRA_TENANT"      = data.azurerm_client_config.current.tenant_id
    },
    var.function_keys ? {
      "SLUICE_FUNCTION_KEYS" = "1"
    } : {},
  )

  app_settings = merge(
    {
      "AzureWebJobsStorage__accountName"          = azurerm_storage_account.state.name
      "AzureWebJobsStorage__credential"           = "managedidentity"
      "AzureWebJobsStorage__clientId"             = azurerm_user_assigned_identity.app.client_id
      "APPLICATIONINSIGHTS_AUTHENTICATION_STRING" = "ClientId=${azurerm_user_assigned_identity.app.client_id};Authorization=AAD"
      "AZURE_CLIENT_ID"                           = azurerm_user_assigned_identity.app.client_id
      "PYTHON_ISOLATE_WORKER_DEPENDENCIES"        = "1"
      "SLUICE_STORAGE_ACCOUNT_URL"                = trimsuffix(azurerm_storage_account.state.primary_blob_endpoint, "/")
      "TASKHUB_NAME"                              = local.hub_name
    },
    local.kubeconfig_settings,
    local.status_settings,
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
  virtual_network_subnet_id                      = local.subnet_id
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

  # Each of these groups scales by itself: what serves `ingest` is of no use to the orchestrations, nor the other way.
  dynamic "always_ready" {
    for_each = { for name, count in { "durable" = var.always_ready, "function:ingest" = var.always_ready_ingest } : name => count if count > 0 }
    content {
      name           = always_ready.key
      instance_count = always_ready.value
    }
  }

  # Without these the app would start and be refused by its own storage.
  depends_on = [azurerm_role_assignment.app_storage, azurerm_subnet_nat_gateway_association.app]
}

# Key Vault references are resolved with this identity; azurerm has no argument for it on Flex Consumption.
resource "azapi_update_resource" "vault_identity" {
  count = local.uses_vault ? 1 : 0

  type        = "Microsoft.Web/sites@2023-12-01"
  resource_id = azurerm_function_app_flex_consumption.app.id
  body        = { properties = { keyVaultReferenceIdentity = azurerm_user_assigned_identity.app.id } }
}
