// What the app may do on a whole subscription: read quotas.
targetScope = 'subscription'

@description('Id of the quota reader\'s role.')
param roleDefinitionId string

@description('The app\'s identity.')
param principalId string

resource right 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(subscription().id, principalId, roleDefinitionId)
  properties: {
    roleDefinitionId: roleDefinitionId
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
