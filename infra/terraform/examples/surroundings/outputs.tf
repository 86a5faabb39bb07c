output "resource_group_name" {
  description = "For `base`."
  value       = azurerm_resource_group.sluice.name
}

output "key_vault_id" {
  description = "For `base`; null without a vault."
  value       = one(azurerm_key_vault.kubeconfigs[*].id)
}

output "vault_uri" {
  description = "Ends in a slash; empty without a vault."
  value       = var.vault ? azurerm_key_vault.kubeconfigs[0].vault_uri : ""
}
