output "app_name" {
  description = "For `func azure functionapp publish`."
  value       = module.base.app_name
}

output "vault_uri" {
  description = "Where the app's kubeconfig goes, as a secret named after the cluster."
  value       = module.surroundings.vault_uri
}

output "storage_url" {
  description = "Where the pools file goes."
  value       = module.base.storage_url
}

output "pools_file" {
  description = "The pools file, with this installation's names filled in: config/<cluster>.yaml."
  value       = local.pools_file
}

output "exporter_values" {
  description = "Values for the Helm chart; the image is yours to add."
  value       = yamlencode(module.base.exporter_values[var.cluster])
}
