// What the app may do in one resource group of pools, or of what their VMs use.

@description('Ids of the custom roles to assign here.')
param roleDefinitionIds string[]

@description('The app\'s identity.')
param principalId string

resource rights 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for id in roleDefinitionIds: {
    name: guid(resourceGroup().id, principalId, id)
    properties: {
      roleDefinitionId: id
      principalId: principalId
      principalType: 'ServicePrincipal'
    }
  }
]
