output "resource_group_name" {
  description = "For `base`."
  value       = azurerm_resource_group.sluice.name
}

output "key_vault_id" {
  description = "For `base`."
  value       = azurerm_key_vault.kubeconfigs.id
}

output "vault_uri" {
  description = "Ends in a slash."
  value       = azurerm_key_vault.kubeconfigs.vault_uri
}
