// What somebody should look at, and a page of what Sluice sees and does. Queries and page lie in ../monitoring, where
// Terraform reads them, too.

@description('Name of the installation.')
param name string

@description('Azure region of the app.')
param location string

@description('Id of the Log Analytics workspace with the app\'s logs.')
param workspaceId string

@description('Names of the topics, by cluster.')
param topics { cluster: string, id: string }[]

@description('Who is told by mail; nobody without it.')
param alertEmail string?

@description('Action groups that alerts go to, too.')
param alertActionGroupIds string[]

@description('Tags on everything.')
param tags object

var logAlerts = items(loadJsonContent('../monitoring/log-alerts.json'))
var topicAlerts = items(loadJsonContent('../monitoring/topic-alerts.json'))
var topicAlertsByTopic = flatten(map(topics, topic => map(topicAlerts, alert => { topic: topic, alert: alert })))
var told = concat(alertEmail == null ? [] : [mail.id], alertActionGroupIds)

resource mail 'Microsoft.Insights/actionGroups@2023-01-01' = if (alertEmail != null) {
  name: '${name}-alerts'
  location: 'global'
  tags: tags
  properties: {
    enabled: true
    groupShortName: take(name, 12)
    emailReceivers: [{ name: 'mail', emailAddress: alertEmail!, useCommonAlertSchema: true }]
  }
}

resource log_alerts 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [
  for each in logAlerts: {
    name: '${name}-${each.key}'
    location: location
    tags: tags
    properties: {
      displayName: 'Sluice ${name}: ${each.value.title}'
      description: each.value.remedy
      enabled: true
      scopes: [workspaceId]
      severity: each.value.severity
      evaluationFrequency: each.value.every
      windowSize: each.value.window
      autoMitigate: true
      skipQueryValidation: true // a new workspace knows no table before its first line
      criteria: {
        allOf: [
          {
            query: join(each.value.query, '\n')
            timeAggregation: 'Count'
            operator: each.value.operator
            threshold: each.value.threshold
            dimensions: map(each.value.dimensions, dimension => { name: dimension, operator: 'Include', values: ['*'] })
            failingPeriods: {
              minFailingPeriodsToAlert: each.value.failing[0]
              numberOfEvaluationPeriods: each.value.failing[1]
            }
          }
        ]
      }
      actions: { actionGroups: told }
    }
  }
]

resource topic_alerts 'Microsoft.Insights/metricAlerts@2018-03-01' = [
  for each in topicAlertsByTopic: {
    name: '${name}-${each.topic.cluster}-${each.alert.key}'
    location: 'global'
    tags: tags
    properties: {
      description: 'Sluice ${name}, cluster ${each.topic.cluster}: ${each.alert.value.title}. ${each.alert.value.remedy}'
      enabled: true
      scopes: [each.topic.id]
      severity: each.alert.value.severity
      evaluationFrequency: 'PT5M'
      windowSize: 'PT15M'
      autoMitigate: true
      criteria: {
        'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
        allOf: [
          {
            criterionType: 'StaticThresholdCriterion'
            name: each.alert.key
            metricNamespace: 'Microsoft.EventGrid/topics'
            metricName: each.alert.value.metric
            timeAggregation: 'Total'
            operator: 'GreaterThan'
            threshold: 0
          }
        ]
      }
      actions: map(told, id => { actionGroupId: id })
    }
  }
]

resource overview 'Microsoft.Insights/workbooks@2023-06-01' = {
  name: guid(resourceGroup().id, name, 'overview')
  location: location
  tags: tags
  kind: 'shared'
  properties: {
    displayName: 'Sluice ${name}'
    category: 'workbook'
    sourceId: toLower(workspaceId)
    serializedData: string(union(loadJsonContent('../monitoring/workbook.json'), { fallbackResourceIds: [workspaceId] }))
  }
}

output dashboardId string = overview.id
