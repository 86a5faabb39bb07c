variable "name" {
  description = "Name of this installation, and the stem of the names of what it consists of."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,14}[a-z0-9]$", var.name))
    error_message = "name: 3 to 16 lower-case letters, digits and hyphens, a letter first and no hyphen last."
  }
}

variable "location" {
  description = "Azure region of the app, best that of the clusters. Flex Consumption must be offered there."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9]+$", var.location))
    error_message = "location: a region's short name, such as westeurope."
  }
}

variable "resource_group_name" {
  description = "Existing resource group that takes everything of this stage, roles aside."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[-\\w.()]{0,89}[-\\w()]$", var.resource_group_name))
    error_message = "resource_group_name: the name, not the id: 1 to 90 letters, digits and -_.(), no full stop last."
  }
}

variable "clusters" {
  description = <<-EOT
    The clusters that are scaled, by the name that their pools file says.

    - oidc_issuer_url: of the cluster, for the exporter's workload identity.
    - exporter_namespace, exporter_service_account: whom the exporter runs as.
    - node_agent_namespace: where the node agent runs; the exporter's unless it needs the host's network.
    - entra: of AKS with Entra, where the app is itself: the API server's https address, its CA in base64
      (certificate-authority-data of a kubeconfig; neither is secret), and the server's application if it is not AKS's.
    - kubeconfig_secret_id: elsewhere, instead: versionless id of the Key Vault secret that holds a kubeconfig with the
      address, the CA and a service account's token.
    - pool_groups: resource groups of its pools (their ids), and which kinds of pool lie there: vmss, vm, aks (the
      AKS cluster's own group) and aks-nodes (the group in which AKS keeps its nodes).
    - linked_scopes: what the pools' VMs join or read and lies outside of those groups (subnets, images, ...), or the
      resource groups of it.
  EOT
  type = map(object({
    oidc_issuer_url          = string
    exporter_namespace       = optional(string, "sluice")
    exporter_service_account = optional(string, "sluice-exporter")
    node_agent_namespace     = optional(string)
    entra = optional(object({
      server         = string
      ca_certificate = string
      application_id = optional(string, "6dae42f8-4368-4678-94ff-3960e28e3630")
    }))
    kubeconfig_secret_id = optional(string)
    pool_groups          = map(set(string))
    linked_scopes        = optional(set(string), [])
  }))
  nullable = false

  validation {
    condition     = length(var.clusters) > 0
    error_message = "clusters: name at least one."
  }
  validation {
    condition     = alltrue([for name in keys(var.clusters) : can(regex("^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$", name))])
    error_message = "clusters: names are lower-case letters, digits and hyphens, at most 40, as in the pools file."
  }
  validation {
    condition     = alltrue([for each in var.clusters : startswith(each.oidc_issuer_url, "https://")])
    error_message = "clusters: oidc_issuer_url begins with https://."
  }
  validation {
    condition     = alltrue([for each in var.clusters : (each.entra == null) != (each.kubeconfig_secret_id == null)])
    error_message = "clusters: each has either entra or kubeconfig_secret_id."
  }
  validation {
    condition = alltrue([
      for each in var.clusters : startswith(each.entra.server, "https://") && strcontains(try(base64decode(each.entra.ca_certificate), ""), "-----BEGIN CERTIFICATE-----")
      if each.entra != null
    ])
    error_message = "clusters: entra has the API server's https:// address and its CA, a PEM certificate in base64."
  }
  validation {
    condition = alltrue([
      for each in var.clusters : can(regex("^https://[^/]+\\.vault\\.[^/]+/secrets/[^/]+/?$", each.kubeconfig_secret_id))
      if each.kubeconfig_secret_id != null
    ])
    error_message = "clusters: kubeconfig_secret_id is https://<vault>.vault.azure.net/secrets/<name>, without a version."
  }
  validation {
    condition = alltrue(flatten([
      for each in var.clusters : [
        for id in keys(each.pool_groups) : can(regex("^/subscriptions/[^/]+/resourceGroups/[^/]+$", id))
      ]
    ]))
    error_message = "clusters: keys of pool_groups are ids, /subscriptions/<id>/resourceGroups/<name>."
  }
  validation {
    condition = alltrue(flatten([
      for each in var.clusters : [
        for kinds in values(each.pool_groups) : length(kinds) > 0 && length(setsubtract(kinds, ["vmss", "vm", "aks", "aks-nodes"])) == 0
      ]
    ]))
    error_message = "clusters: kinds in pool_groups are vmss, vm, aks and aks-nodes."
  }
  validation {
    condition     = alltrue([for each in var.clusters : length(each.pool_groups) > 0])
    error_message = "clusters: each has pools in one resource group at least."
  }
  validation {
    condition     = alltrue(flatten([for each in var.clusters : [for id in each.linked_scopes : can(regex("^/subscriptions/[^/]+/resourceGroups/[^/]+", id))]]))
    error_message = "clusters: linked_scopes are ids of resource groups, or of what lies in them."
  }
}

variable "key_vault_id" {
  description = "Key Vault (with Azure RBAC) that holds the kubeconfigs. Null, where all clusters have entra."
  type        = string
  default     = null

  validation {
    condition     = var.key_vault_id != null || alltrue([for each in var.clusters : each.kubeconfig_secret_id == null])
    error_message = "key_vault_id: name the vault in which the clusters' kubeconfig_secret_id lie."
  }
  validation {
    condition     = var.key_vault_id == null || can(regex("^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.KeyVault/vaults/[^/]+$", var.key_vault_id))
    error_message = "key_vault_id: the id of a Key Vault."
  }
}

variable "always_ready" {
  description = "Instances that are kept warm for the orchestrations. 0 is cheapest; 1 spares a cold start of some seconds at each step that nothing runs for yet."
  type        = number
  default     = 0
  nullable    = false

  validation {
    condition     = var.always_ready >= 0 && var.always_ready <= 20 && floor(var.always_ready) == var.always_ready
    error_message = "always_ready: a whole number from 0 to 20."
  }
}

variable "always_ready_ingest" {
  description = "The same for `ingest`, which takes the events and scales by itself. What docs/benchmarks.md measures has one of each."
  type        = number
  default     = 0
  nullable    = false

  validation {
    condition     = var.always_ready_ingest >= 0 && var.always_ready_ingest <= 20 && floor(var.always_ready_ingest) == var.always_ready_ingest
    error_message = "always_ready_ingest: a whole number from 0 to 20."
  }
}

variable "instance_memory_mb" {
  description = "Memory of an instance of the app; 2048 is ample for 15,000 pending pods."
  type        = number
  default     = 2048
  nullable    = false

  validation {
    condition     = contains([512, 2048, 4096], var.instance_memory_mb)
    error_message = "instance_memory_mb: 512, 2048 or 4096."
  }
}

variable "maximum_instances" {
  description = "How far the app may scale out, each group of functions by itself."
  type        = number
  default     = 40
  nullable    = false

  validation {
    condition     = var.maximum_instances >= 1 && var.maximum_instances <= 1000 && floor(var.maximum_instances) == var.maximum_instances
    error_message = "maximum_instances: a whole number from 1 to 1000."
  }
}

variable "api_server_access" {
  description = <<-EOT
    How the clusters' API servers are reached (docs/network.md): public, from Azure's own addresses; authorised-ranges, from
    one fixed address (output outbound_address), by a network and a NAT gateway of the app's own; private, from subnet_id.
  EOT
  type        = string
  default     = "public"
  nullable    = false

  validation {
    condition     = contains(["public", "authorised-ranges", "private"], var.api_server_access)
    error_message = "api_server_access: public, authorised-ranges or private."
  }
}

variable "network_cidr" {
  description = "With authorised-ranges: the addresses of the app's own network. One is used by each instance of the app."
  type        = string
  default     = "10.64.0.0/26"
  nullable    = false

  validation {
    condition     = can(cidrnetmask(var.network_cidr)) && try(tonumber(split("/", var.network_cidr)[1]) <= 27, false)
    error_message = "network_cidr: IPv4 addresses such as 10.64.0.0/26, of at most 27 bits: smaller is no room for an app."
  }
}

variable "subnet_id" {
  description = "With private: a subnet in the clusters' network, or one peered with it, delegated to Microsoft.App/environments and used by nothing else."
  type        = string
  default     = null

  validation {
    condition     = (var.subnet_id != null) == (var.api_server_access == "private")
    error_message = "subnet_id: name it with api_server_access = \"private\", and only then."
  }
  validation {
    condition     = var.subnet_id == null || can(regex("^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.Network/virtualNetworks/[^/]+/subnets/[^/_]+$", var.subnet_id))
    error_message = "subnet_id: the id of a subnet, whose name has no underscore: Flex Consumption takes none."
  }
}

variable "private_dns_zone_ids" {
  description = "Private DNS zones of API servers that the app's network is not linked with yet. A zone is linked with its own cluster's network already."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition = alltrue([
      for id in var.private_dns_zone_ids : can(regex("^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.Network/privateDnsZones/[^/]+$", id))
    ])
    error_message = "private_dns_zone_ids: ids of private DNS zones."
  }
  validation {
    condition     = length(var.private_dns_zone_ids) == 0 || var.api_server_access != "public"
    error_message = "private_dns_zone_ids: an app with public access has no network to link them with."
  }
}

variable "status_application_id" {
  description = <<-EOT
    Client id of the Entra application whose tokens open status, explain, history (role Sluice.Read or Sluice.Operate),
    pause and resume (Sluice.Operate): docs/secrets.md. Null: they are closed, unless function_keys opens them.
  EOT
  type        = string
  default     = null

  validation {
    condition     = var.status_application_id == null || can(regex("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", var.status_application_id))
    error_message = "status_application_id: a client id, such as 00000000-0000-0000-0000-000000000000."
  }
}

variable "function_keys" {
  description = "Open status, explain, history, pause and resume by keys of the functions instead: secrets that the platform holds and people hand around."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = !(var.function_keys && var.status_application_id != null)
    error_message = "function_keys: not beside status_application_id, which would be of no use then."
  }
}

variable "durable_task_scheduler" {
  description = "Keep orchestrations in a Durable Task Scheduler (Consumption) instead of the storage account: faster, dearer."
  type        = bool
  default     = false
  nullable    = false
}

variable "alert_email" {
  description = "Who is told of alerts by mail. Null: nobody, unless alert_action_group_ids says who; alerts are seen in the portal all the same."
  type        = string
  default     = null

  validation {
    condition     = var.alert_email == null || can(regex("^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$", var.alert_email))
    error_message = "alert_email: an address such as oncall@example.org, or null."
  }
}

variable "alert_action_group_ids" {
  description = "Action groups that there are already and that alerts go to, too: for webhooks, on-call schedules and the like."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition = alltrue([
      for id in var.alert_action_group_ids :
      can(regex("(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.Insights/actionGroups/[^/]+$", id))
    ])
    error_message = "alert_action_group_ids: ids, /subscriptions/<id>/resourceGroups/<name>/providers/Microsoft.Insights/actionGroups/<name>."
  }
}

variable "log_retention_days" {
  description = "How long logs are kept."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = var.log_retention_days >= 30 && var.log_retention_days <= 730 && floor(var.log_retention_days) == var.log_retention_days
    error_message = "log_retention_days: a whole number from 30 to 730."
  }
}

variable "tags" {
  description = "Tags on everything."
  type        = map(string)
  default     = {}
  nullable    = false
}
