// The app reads kubeconfigs from the vault.

@description('Name of the Key Vault in this resource group.')
param vaultName string

@description('The app\'s identity.')
param principalId string

var secretsUser = subscriptionResourceId(
  'Microsoft.Authorization/roleDefinitions',
  '4633458b-17de-408a-b874-0445c86b69e6'
)

resource vault 'Microsoft.KeyVault/vaults@2023-07-01' existing = {
  name: vaultName
}

resource right 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: vault
  name: guid(vault.id, principalId, secretsUser)
  properties: {
    roleDefinitionId: secretsUser
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
