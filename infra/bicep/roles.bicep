// The custom roles of ../roles, at a subscription; their ids by key.
targetScope = 'subscription'

@description('Name of the installation.')
param name string

@description('Subscriptions of the pools: the roles can be assigned in these.')
param subscriptionIds string[]

@description('Which of the roles are needed: of the kinds of pool that there are, and what all of them need.')
param kinds string[]

var all = {
  vmss: loadJsonContent('../roles/scale-sets.json')
  vm: loadJsonContent('../roles/virtual-machines.json')
  aks: loadJsonContent('../roles/agent-pools.json')
  'aks-nodes': loadJsonContent('../roles/agent-pool-machines.json')
  linked: loadJsonContent('../roles/linked-resources.json')
  quota: loadJsonContent('../roles/quota-reader.json')
}
var roles = filter(items(all), role => contains(kinds, role.key))

resource custom 'Microsoft.Authorization/roleDefinitions@2022-04-01' = [
  for role in roles: {
    name: guid(subscription().id, name, role.key)
    properties: {
      roleName: '${role.value.name} (${name})'
      description: role.value.description
      type: 'CustomRole'
      assignableScopes: [for id in subscriptionIds: '/subscriptions/${id}']
      permissions: [
        {
          actions: objectKeys(role.value.actions)
        }
      ]
    }
  }
]

output ids object = toObject(
  roles,
  role => role.key,
  role => subscriptionResourceId('Microsoft.Authorization/roleDefinitions', guid(subscription().id, name, role.key))
)
