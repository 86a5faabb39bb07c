# The first five are what `sluice doctor --installation` reads.

output "app_id" {
  description = "The app's resource id."
  value       = module.base.app_id
}

output "app_hostname" {
  description = "Where the app is."
  value       = module.base.app_hostname
}

output "app_principal_id" {
  description = "The app's identity, for its rights in the cluster: functions.entraObjectId of the chart."
  value       = module.base.app_principal_id
}

output "topics" {
  description = "The topic's id, by cluster."
  value       = module.base.topics
}

output "rights" {
  description = "What the app may do in Azure besides its own resources: scopes by custom role."
  value       = module.base.rights
}

output "app_name" {
  description = "For `func azure functionapp publish`."
  value       = module.base.app_name
}

output "vault_uri" {
  description = "Where the app's kubeconfig goes, as a secret named after the cluster; empty where the app is itself there."
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

output "chart_values" {
  description = "Values for the Helm chart; the image is yours to add."
  value       = yamlencode(module.base.exporter_values[var.cluster])
}
