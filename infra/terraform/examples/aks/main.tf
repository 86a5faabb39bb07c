# An AKS cluster that exists already, made with --enable-oidc-issuer --enable-workload-identity --enable-aad, and two agent
# pools for Sluice: Spot first, on-demand behind it. No secret anywhere: the app is itself in the cluster.

variable "aks_cluster_id" {
  description = "Id of the AKS cluster, as `az aks show --query id` prints it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.ContainerService/managedClusters/[^/]+$", var.aks_cluster_id))
    error_message = "aks_cluster_id: /subscriptions/<id>/resourceGroups/<name>/providers/Microsoft.ContainerService/managedClusters/<name>."
  }
}

variable "api_server_ca" {
  description = "The cluster's CA in base64, which is not secret: certificate-authority-data of what `az aks get-credentials` writes."
  type        = string
  nullable    = false
}

# azurerm's own data source would bring the cluster's kubeconfigs into the state; nothing of these is secret.
data "azapi_resource" "cluster" {
  type                   = "Microsoft.ContainerService/managedClusters@2025-05-01"
  resource_id            = local.aks_cluster_id
  response_export_values = ["properties.oidcIssuerProfile.issuerURL", "properties.nodeResourceGroup", "properties.fqdn", "properties.privateFQDN"]
}

locals {
  about = try(data.azapi_resource.cluster.output.properties, jsondecode(data.azapi_resource.cluster.output).properties)
  parts = split("/", var.aks_cluster_id) # az writes resourcegroups, providers insist on resourceGroups
  group = "/subscriptions/${local.parts[2]}/resourceGroups/${local.parts[4]}"
  host  = coalesce(try(local.about.privateFQDN, null), try(local.about.fqdn, null))
  nodes = "/subscriptions/${local.parts[2]}/resourceGroups/${local.about.nodeResourceGroup}"

  vault          = false
  aks_cluster_id = "${local.group}/providers/Microsoft.ContainerService/managedClusters/${local.parts[8]}"

  pools_file = templatefile("${path.module}/pools.yaml", {
    cluster        = var.cluster
    subscription   = local.parts[2]
    resource_group = local.parts[4]
    location       = var.location
    aks_cluster    = local.parts[8]
  })
}

module "base" {
  source = "../../base"

  name                = var.name
  location            = var.location
  resource_group_name = module.surroundings.resource_group_name
  alert_email         = var.alert_email

  status_application_id = var.status_application_id

  clusters = {
    (var.cluster) = {
      oidc_issuer_url = local.about.oidcIssuerProfile.issuerURL
      entra           = { server = "https://${local.host}:443", ca_certificate = var.api_server_ca }
      pool_groups = {
        (local.group) = ["aks"]
        (local.nodes) = ["aks-nodes"]
      }
    }
  }
}

resource "azurerm_kubernetes_cluster_node_pool" "each" {
  #checkov:skip=CKV_AZURE_227:host encryption must be registered for in the subscription first; switch it on where it is
  #checkov:skip=CKV_AZURE_168:as many pods as the network has addresses for is the user's choice
  for_each = { spot = "Spot", regular = "Regular" }

  name                  = each.key
  kubernetes_cluster_id = local.aks_cluster_id
  vm_size               = "Standard_D4s_v5"
  priority              = each.value
  eviction_policy       = each.value == "Spot" ? "Delete" : null
  spot_max_price        = each.value == "Spot" ? -1 : null
  node_labels           = each.value == "Spot" ? { "kubernetes.azure.com/scalesetpriority" = "spot" } : null
  node_taints           = each.value == "Spot" ? ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"] : null
  auto_scaling_enabled  = false # two scalers would undo each other
  node_count            = 0

  lifecycle {
    ignore_changes = [node_count] # from here on Sluice's
  }
}
