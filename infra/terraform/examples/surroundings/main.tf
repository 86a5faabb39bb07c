# What an installation stands in: a resource group and, where the app cannot be itself in the cluster, a vault for its
# kubeconfig, with the right to fill it for whoever applies.

data "azurerm_client_config" "current" {}

resource "azurerm_resource_group" "sluice" {
  name     = var.name
  location = var.location
}

resource "azurerm_key_vault" "kubeconfigs" {
  count = var.vault ? 1 : 0

  #checkov:skip=CKV_AZURE_109:an app without a subnet comes from Azure's own addresses; with one, close the vault to others
  #checkov:skip=CKV_AZURE_189:an app without a subnet resolves its references over the public endpoint, by Entra alone
  #checkov:skip=CKV2_AZURE_32:a private endpoint is the user's choice, with their network
  name                       = "${substr(replace(var.name, "-", ""), 0, 14)}${substr(sha1("${data.azurerm_client_config.current.subscription_id}/${var.name}"), 0, 8)}"
  resource_group_name        = azurerm_resource_group.sluice.name
  location                   = var.location
  tenant_id                  = data.azurerm_client_config.current.tenant_id
  sku_name                   = "standard"
  rbac_authorization_enabled = true
  purge_protection_enabled   = true
}

resource "azurerm_role_assignment" "operator_vault" {
  count = var.vault ? 1 : 0

  scope                = azurerm_key_vault.kubeconfigs[0].id
  role_definition_name = "Key Vault Secrets Officer"
  principal_id         = data.azurerm_client_config.current.object_id
}
