// Stage one of two: everything but the Event Grid subscriptions, which need the published function (see wire.bicep).
// The same resources, settings and rights as ../terraform/base; a test holds them equal.

@minLength(3)
@maxLength(16)
@description('Name of this installation, and the stem of the names of what it consists of: lower-case letters, digits, hyphens.')
param name string

@description('Azure region of the app, best that of the clusters.')
param location string = resourceGroup().location

@description('Resource groups of a cluster\'s pools, and the kinds of pool that lie there.')
type poolGroup = {
  subscriptionId: string
  resourceGroupName: string
  kinds: ('vmss' | 'vm' | 'aks' | 'aks-nodes')[]
}

@description('Resource groups with what the VMs of pools use: subnets, images and the like.')
type linkedGroup = {
  subscriptionId: string
  resourceGroupName: string
}

@description('An API server that takes Entra tokens.')
type entraServer = {
  @description('Its https address.')
  server: string
  @description('Its CA in base64, as certificate-authority-data of a kubeconfig.')
  caCertificate: string
  @description('The server\'s application, if it is not AKS\'s.')
  applicationId: string?
}

@description('A cluster that is scaled: it has either entra or kubeconfigSecretId.')
type cluster = {
  @description('As its pools file says it.')
  name: string
  oidcIssuerUrl: string
  exporterNamespace: string?
  exporterServiceAccount: string?
  @description('Where the node agent runs; the exporter\'s unless it needs the host\'s network.')
  nodeAgentNamespace: string?
  @description('Of AKS with Entra, where the app is itself. Neither address nor CA is secret.')
  entra: entraServer?
  @description('Elsewhere, instead: versionless id of the Key Vault secret with a kubeconfig of address, CA and token.')
  kubeconfigSecretId: string?
  poolGroups: poolGroup[]
  linkedGroups: linkedGroup[]?
}

@minLength(1)
param clusters cluster[]

@description('Key Vault with Azure RBAC that holds the kubeconfigs; none, where all clusters have entra.')
param keyVaultId string?

@minValue(0)
@maxValue(20)
@description('Instances kept warm for the orchestrations; 1 spares a cold start of some seconds at each step that nothing runs for yet.')
param alwaysReady int = 0

@minValue(0)
@maxValue(20)
@description('The same for `ingest`, which takes the events and scales by itself.')
param alwaysReadyIngest int = 0

@allowed([512, 2048, 4096])
@description('Memory of an instance, in MB.')
param instanceMemoryMb int = 2048

@minValue(1)
@maxValue(1000)
@description('How far the app may scale out, each group of functions by itself.')
param maximumInstances int = 40

@allowed(['public', 'authorised-ranges', 'private'])
@description('How the API servers are reached: from Azure\'s own addresses, from one fixed address (output outboundAddress), or from subnetId.')
param apiServerAccess string = 'public'

@description('With authorised-ranges: addresses of the app\'s own network, at most a /27; one is used by each instance.')
param networkCidr string = '10.64.0.0/26'

@description('With private, and only then: a subnet in or beside the clusters\' network, delegated to Microsoft.App/environments, without an underscore in its name.')
param subnetId string?

@description('Private DNS zones of API servers that the app\'s network is not linked with yet.')
param privateDnsZoneIds string[] = []

@description('Client id of the Entra application whose tokens open status, explain, history, pause and resume. Without it they are closed.')
param statusApplicationId string?

@description('Open them by keys of the functions instead: secrets that the platform holds and people hand around.')
param functionKeys bool = false

@description('Keep orchestrations in a Durable Task Scheduler instead of the storage account.')
param durableTaskScheduler bool = false

@description('Who is told of alerts by mail.')
param alertEmail string?

@description('Action groups that there are already and that alerts go to, too.')
param alertActionGroupIds string[] = []

@minValue(30)
@maxValue(730)
@description('How long logs are kept, in days.')
param logRetentionDays int = 30

@description('Tags on everything.')
param tags object = {}

var allTags = union(tags, { 'sluice.io/installation': name })
var stem = uniqueString(resourceGroup().id, name)
var appName = '${name}-${take(stem, 6)}'
var hubName = replace(name, '-', '')
var vaultId = keyVaultId ?? '${resourceGroup().id}/none' // a scope is worked out even of a module that is left out
var clusterNames = map(clusters, each => each.name)
var containerNames = concat(
  ['config', 'dead-letters', 'package'],
  map(clusterNames, each => 'snapshots-${each}'),
  map(clusterNames, each => 'plans-${each}')
)
var builtIn = {
  blobOwner: 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
  blobContributor: 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'
  blobReader: '2a2b9908-6ea1-4ae2-8e65-a410df84e7d1'
  queueContributor: '974c5e8b-45b9-4653-ba55-5f855dd0fb88'
  tableContributor: '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3'
  metricsPublisher: '3913510d-42f4-4e42-8a64-420c390055eb'
  eventGridSender: 'd5a91429-5739-47e2-a06b-3470a27159e7'
  durableTaskContributor: '0ad04412-c4d5-4796-b79c-f76d14c8d402'
}
var poolSubscriptions = union([], flatten(map(clusters, each => map(each.poolGroups, group => group.subscriptionId))))
var poolGroups = union([], flatten(map(clusters, each => each.poolGroups)))
// Not 'linked' where AKS keeps its nodes: there nothing is ever written.
var poolRights = map(poolGroups, group => {
  subscriptionId: group.subscriptionId
  resourceGroupName: group.resourceGroupName
  roles: union(group.kinds, length(filter(group.kinds, kind => kind != 'aks-nodes')) > 0 ? ['linked'] : [])
})
var kinds = union(['linked', 'quota'], flatten(map(poolGroups, group => group.kinds)))
var linkedGroups = union([], flatten(map(clusters, each => each.?linkedGroups ?? [])))

resource app_identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: '${name}-app'
  location: location
  tags: allTags
}

resource state 'Microsoft.Storage/storageAccounts@2023-05-01' = {
  name: '${take(replace(name, '-', ''), 14)}${take(stem, 8)}'
  location: location
  tags: allTags
  kind: 'StorageV2'
  sku: { name: 'Standard_ZRS' }
  properties: {
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    allowBlobPublicAccess: false
    isLocalUserEnabled: false
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2023-05-01' = {
  parent: state
  name: 'default'
  properties: {
    isVersioningEnabled: false
    deleteRetentionPolicy: { enabled: true, days: 7 }
    containerDeleteRetentionPolicy: { enabled: true, days: 7 }
  }
}

resource containers 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' = [
  for container in containerNames: {
    parent: blobs
    name: container
    properties: { publicAccess: 'None' }
  }
]

resource old 'Microsoft.Storage/storageAccounts/managementPolicies@2023-05-01' = {
  parent: state
  name: 'default'
  properties: {
    policy: {
      rules: [
        {
          name: 'snapshots'
          enabled: true
          type: 'Lifecycle'
          definition: {
            filters: { blobTypes: ['blockBlob'], prefixMatch: map(clusterNames, each => 'snapshots-${each}/') }
            actions: { baseBlob: { delete: { daysAfterModificationGreaterThan: 1 } } }
          }
        }
        {
          name: 'plans'
          enabled: true
          type: 'Lifecycle'
          definition: {
            filters: { blobTypes: ['blockBlob'], prefixMatch: map(clusterNames, each => 'plans-${each}/acted/') }
            actions: { baseBlob: { delete: { daysAfterModificationGreaterThan: 7 } } }
          }
        }
        {
          name: 'trail'
          enabled: true
          type: 'Lifecycle'
          definition: {
            filters: { blobTypes: ['blockBlob'], prefixMatch: map(clusterNames, each => 'plans-${each}/trail/') }
            actions: { baseBlob: { delete: { daysAfterModificationGreaterThan: 90 } } }
          }
        }
      ]
    }
  }
}

resource logs 'Microsoft.OperationalInsights/workspaces@2023-09-01' = {
  name: '${name}-logs'
  location: location
  tags: allTags
  properties: {
    sku: { name: 'PerGB2018' }
    retentionInDays: logRetentionDays
  }
}

resource insights 'Microsoft.Insights/components@2020-02-02' = {
  name: '${name}-insights'
  location: location
  tags: allTags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: logs.id
    DisableLocalAuth: true
  }
}

resource plan 'Microsoft.Web/serverfarms@2023-12-01' = {
  name: appName
  location: location
  tags: allTags
  kind: 'functionapp'
  sku: { name: 'FC1', tier: 'FlexConsumption' }
  properties: { reserved: true }
}

var schedulerSettings = durableTaskScheduler
  ? {
      AzureFunctionsJobHost__extensions__durableTask__storageProvider__type: 'azureManaged'
      AzureFunctionsJobHost__extensions__durableTask__storageProvider__connectionStringName: 'DURABLE_TASK_SCHEDULER_CONNECTION_STRING'
      DURABLE_TASK_SCHEDULER_CONNECTION_STRING: 'Endpoint=${scheduler!.properties.endpoint};Authentication=ManagedIdentity;ClientID=${app_identity.properties.clientId}'
    }
  : {}
var kubeconfigSettings = toObject(
  clusters,
  each => 'SLUICE_KUBECONFIG_${toUpper(replace(each.name, '-', '_'))}',
  each => each.?entra == null ? '@Microsoft.KeyVault(SecretUri=${each.?kubeconfigSecretId ?? ''}/)' : string(entraKubeconfigs[each.name])
)
// What az aks get-credentials would write: where it has kubelogin fetch a token, the app fetches one for itself.
var entraKubeconfigs = toObject(
  filter(clusters, each => each.?entra != null),
  each => each.name,
  each => {
    apiVersion: 'v1'
    kind: 'Config'
    'current-context': each.name
    clusters: [
      { name: each.name, cluster: { server: each.?entra.?server, 'certificate-authority-data': each.?entra.?caCertificate } }
    ]
    users: [
      {
        name: 'app'
        user: {
          exec: {
            apiVersion: 'client.authentication.k8s.io/v1beta1'
            command: 'kubelogin'
            args: ['get-token', '--login', 'msi', '--server-id', each.?entra.?applicationId ?? '6dae42f8-4368-4678-94ff-3960e28e3630']
          }
        }
      }
    ]
    contexts: [{ name: each.name, context: { cluster: each.name, user: 'app' } }]
  }
)
// Who may ask the app what it does, and stop it. With neither, nobody may.
var entraSettings = statusApplicationId != null
  ? {
      SLUICE_ENTRA_APPLICATION: statusApplicationId ?? ''
      SLUICE_ENTRA_TENANT: tenant().tenantId
    }
  : {}
var keySettings = functionKeys
  ? {
      SLUICE_FUNCTION_KEYS: '1'
    }
  : {}

resource app 'Microsoft.Web/sites@2023-12-01' = {
  name: appName
  location: location
  tags: allTags
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: { '${app_identity.id}': {} }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    keyVaultReferenceIdentity: app_identity.id
    virtualNetworkSubnetId: apiServerAccess == 'authorised-ranges' ? network!.outputs.subnetId : subnetId
    siteConfig: { minTlsVersion: '1.2' }
    functionAppConfig: {
      runtime: { name: 'python', version: '3.11' }
      deployment: {
        storage: {
          type: 'blobContainer'
          value: '${state.properties.primaryEndpoints.blob}package'
          authentication: { type: 'UserAssignedIdentity', userAssignedIdentityResourceId: app_identity.id }
        }
      }
      scaleAndConcurrency: {
        instanceMemoryMB: instanceMemoryMb
        maximumInstanceCount: maximumInstances
        // Each of these groups scales by itself: what serves `ingest` is of no use to the orchestrations.
        alwaysReady: concat(
          alwaysReady > 0 ? [{ name: 'durable', instanceCount: alwaysReady }] : [],
          alwaysReadyIngest > 0 ? [{ name: 'function:ingest', instanceCount: alwaysReadyIngest }] : []
        )
      }
    }
  }
  dependsOn: [app_storage, containers]

  resource settings 'config' = {
    name: 'appsettings'
    properties: union(
      {
        APPLICATIONINSIGHTS_CONNECTION_STRING: insights.properties.ConnectionString
        APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${app_identity.properties.clientId};Authorization=AAD'
        AZURE_CLIENT_ID: app_identity.properties.clientId
        AzureWebJobsStorage__accountName: state.name
        AzureWebJobsStorage__clientId: app_identity.properties.clientId
        AzureWebJobsStorage__credential: 'managedidentity'
        PYTHON_ISOLATE_WORKER_DEPENDENCIES: '1'
        SLUICE_STORAGE_ACCOUNT_URL: 'https://${state.name}.blob.${environment().suffixes.storage}'
        TASKHUB_NAME: hubName
      },
      kubeconfigSettings,
      entraSettings,
      keySettings,
      schedulerSettings
    )
  }

  resource publishing 'basicPublishingCredentialsPolicies' = {
    name: 'scm'
    properties: { allow: false }
  }
}

resource scheduler 'Microsoft.DurableTask/schedulers@2025-11-01' = if (durableTaskScheduler) {
  name: appName
  location: location
  tags: allTags
  properties: {
    ipAllowlist: ['0.0.0.0/0']
    sku: { name: 'Consumption' }
  }

  resource hub 'taskHubs' = {
    name: hubName
    properties: {}
  }
}

resource topics 'Microsoft.EventGrid/topics@2024-06-01-preview' = [
  for each in clusters: {
    name: '${name}-${each.name}'
    location: location
    tags: allTags
    identity: { type: 'SystemAssigned' }
    properties: {
      inputSchema: 'CloudEventSchemaV1_0'
      disableLocalAuth: true
    }
  }
]

resource exporter_identities 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = [
  for each in clusters: {
    name: '${name}-${each.name}-exporter'
    location: location
    tags: allTags
  }
]

resource exporter_credentials 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2023-01-31' = [
  for (each, number) in clusters: {
    parent: exporter_identities[number]
    name: 'exporter'
    properties: {
      audiences: ['api://AzureADTokenExchange']
      issuer: each.oidcIssuerUrl
      subject: 'system:serviceaccount:${each.?exporterNamespace ?? 'sluice'}:${each.?exporterServiceAccount ?? 'sluice-exporter'}'
    }
  }
]

// The node agent runs beside other people's pods on Spot nodes: an identity of its own, which may send and nothing else.
resource node_agent_identities 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = [
  for each in clusters: {
    name: '${name}-${each.name}-node-agent'
    location: location
    tags: allTags
  }
]

resource node_agent_credentials 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2023-01-31' = [
  for (each, number) in clusters: {
    parent: node_agent_identities[number]
    name: 'node-agent'
    properties: {
      audiences: ['api://AzureADTokenExchange']
      issuer: each.oidcIssuerUrl
      subject: 'system:serviceaccount:${each.?nodeAgentNamespace ?? each.?exporterNamespace ?? 'sluice'}:sluice-node-agent'
    }
  }
]

// How the app reaches API servers: docs/network.md.

module network 'network.bicep' = if (apiServerAccess == 'authorised-ranges') {
  name: '${name}-network'
  params: { name: name, location: location, networkCidr: networkCidr, tags: allTags }
}

var networkId = apiServerAccess == 'authorised-ranges'
  ? network!.outputs.networkId
  : apiServerAccess == 'private' ? split(subnetId ?? '', '/subnets/')[0] : ''

module dns_links 'dns-link.bicep' = [
  for zone in privateDnsZoneIds: {
    name: '${name}-dns-${uniqueString(zone)}'
    scope: resourceGroup(split(zone, '/')[2], split(zone, '/')[4])
    params: { name: name, zoneName: last(split(zone, '/')), networkId: networkId, tags: allTags }
  }
]

module monitoring 'monitoring.bicep' = {
  name: '${name}-monitoring'
  params: {
    name: name
    location: location
    workspaceId: logs.id
    topics: [for (each, number) in clusters: { cluster: each.name, id: topics[number].id }]
    alertEmail: alertEmail
    alertActionGroupIds: alertActionGroupIds
    tags: allTags
  }
}

// Rights.

module roles 'roles.bicep' = {
  name: '${name}-roles'
  scope: subscription(poolSubscriptions[0])
  params: { name: name, subscriptionIds: poolSubscriptions, kinds: kinds }
}

module app_pools 'group-rights.bicep' = [
  for right in poolRights: {
    name: '${name}-pools-${uniqueString(right.subscriptionId, right.resourceGroupName)}'
    scope: resourceGroup(right.subscriptionId, right.resourceGroupName)
    params: {
      principalId: app_identity.properties.principalId
      roleDefinitionIds: map(right.roles, role => roles.outputs.ids[role])
    }
  }
]

module app_linked 'group-rights.bicep' = [
  for group in linkedGroups: {
    name: '${name}-linked-${uniqueString(group.subscriptionId, group.resourceGroupName)}'
    scope: resourceGroup(group.subscriptionId, group.resourceGroupName)
    params: {
      principalId: app_identity.properties.principalId
      roleDefinitionIds: [roles.outputs.ids.linked]
    }
  }
]

module app_quota 'subscription-rights.bicep' = [
  for id in poolSubscriptions: {
    name: '${name}-quota-${uniqueString(id)}'
    scope: subscription(id)
    params: { principalId: app_identity.properties.principalId, roleDefinitionId: roles.outputs.ids.quota }
  }
]

module app_vault 'vault-right.bicep' = if (keyVaultId != null) {
  name: '${name}-vault'
  scope: resourceGroup(split(vaultId, '/')[2], split(vaultId, '/')[4])
  params: { principalId: app_identity.properties.principalId, vaultName: last(split(vaultId, '/')) }
}

resource app_storage 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for role in [builtIn.blobOwner, builtIn.queueContributor, builtIn.tableContributor]: {
    scope: state
    name: guid(state.id, app_identity.id, role)
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role)
      principalId: app_identity.properties.principalId
      principalType: 'ServicePrincipal'
    }
  }
]

resource app_insights 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: insights
  name: guid(insights.id, app_identity.id, builtIn.metricsPublisher)
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', builtIn.metricsPublisher)
    principalId: app_identity.properties.principalId
    principalType: 'ServicePrincipal'
  }
}

resource app_scheduler 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (durableTaskScheduler) {
  scope: scheduler
  name: guid(resourceGroup().id, app_identity.id, builtIn.durableTaskContributor)
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', builtIn.durableTaskContributor)
    principalId: app_identity.properties.principalId
    principalType: 'ServicePrincipal'
  }
}

resource exporter_topic 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, number) in clusters: {
    scope: topics[number]
    name: guid(topics[number].id, each.name, builtIn.eventGridSender)
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', builtIn.eventGridSender)
      principalId: exporter_identities[number].properties.principalId
      principalType: 'ServicePrincipal'
    }
  }
]

resource node_agent_topic 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, number) in clusters: {
    scope: topics[number]
    name: guid(topics[number].id, each.name, 'node-agent', builtIn.eventGridSender)
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', builtIn.eventGridSender)
      principalId: node_agent_identities[number].properties.principalId
      principalType: 'ServicePrincipal'
    }
  }
]

resource config_container 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' existing = {
  parent: blobs
  name: 'config'
}

resource dead_letters_container 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' existing = {
  parent: blobs
  name: 'dead-letters'
}

resource snapshot_containers 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' existing = [
  for each in clusters: {
    parent: blobs
    name: 'snapshots-${each.name}'
  }
]

resource exporter_snapshots 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, number) in clusters: {
    scope: snapshot_containers[number]
    name: guid(state.id, each.name, 'snapshots')
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', builtIn.blobContributor)
      principalId: exporter_identities[number].properties.principalId
      principalType: 'ServicePrincipal'
    }
    dependsOn: [containers]
  }
]

resource exporter_config 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, number) in clusters: {
    scope: config_container
    name: guid(state.id, each.name, 'config')
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', builtIn.blobReader)
      principalId: exporter_identities[number].properties.principalId
      principalType: 'ServicePrincipal'
    }
    dependsOn: [containers]
  }
]

resource topic_dead_letters 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, number) in clusters: {
    scope: dead_letters_container
    name: guid(state.id, each.name, 'dead-letters')
    properties: {
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', builtIn.blobContributor)
      principalId: topics[number].identity.principalId
      principalType: 'ServicePrincipal'
    }
    dependsOn: [containers]
  }
]

output appName string = app.name
output appId string = app.id
output appPrincipalId string = app_identity.properties.principalId
output outboundAddress string = apiServerAccess == 'authorised-ranges' ? network!.outputs.outboundAddress : ''
output networkId string = networkId
output appHostname string = app.properties.defaultHostName
output storageAccountId string = state.id
output storageUrl string = 'https://${state.name}.blob.${environment().suffixes.storage}'
output topics array = [for (each, number) in clusters: { cluster: each.name, id: topics[number].id }]
output rights array = concat(
  map(poolRights, right => { scope: '/subscriptions/${right.subscriptionId}/resourceGroups/${right.resourceGroupName}', roles: right.roles }),
  map(linkedGroups, group => { scope: '/subscriptions/${group.subscriptionId}/resourceGroups/${group.resourceGroupName}', roles: ['linked'] }),
  map(poolSubscriptions, id => { scope: '/subscriptions/${id}', roles: ['quota'] })
)
output workspaceId string = logs.id
output dashboardId string = monitoring.outputs.dashboardId
output schedulerEndpoint string = durableTaskScheduler ? scheduler!.properties.endpoint : ''
output exporterValues array = [
  for (each, number) in clusters: {
    cluster: each.name
    topicEndpoint: topics[number].properties.endpoint
    storageUrl: 'https://${state.name}.blob.${environment().suffixes.storage}'
    clientId: exporter_identities[number].properties.clientId
    tenantId: tenant().tenantId
    nodeAgent: {
      clientId: node_agent_identities[number].properties.clientId
      namespace: each.?nodeAgentNamespace ?? ''
    }
  }
]
