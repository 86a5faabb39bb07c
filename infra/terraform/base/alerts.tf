# What somebody should look at. The queries lie in ../../monitoring, where Bicep reads them, too.

locals {
  log_alerts   = jsondecode(file("${path.module}/../../monitoring/log-alerts.json"))
  topic_alerts = jsondecode(file("${path.module}/../../monitoring/topic-alerts.json"))
  told         = concat(azurerm_monitor_action_group.mail[*].id, sort(var.alert_action_group_ids))

  alerts_by_topic = merge([
    for cluster in keys(var.clusters) : {
      for key, alert in local.topic_alerts : "${cluster} ${key}" => merge(alert, { key = key, cluster = cluster })
    }
  ]...)
}

resource "azurerm_monitor_action_group" "mail" {
  count = var.alert_email == null ? 0 : 1

  name                = "${var.name}-alerts"
  resource_group_name = var.resource_group_name
  short_name          = substr(var.name, 0, 12)
  tags                = local.tags

  email_receiver {
    name                    = "mail"
    email_address           = var.alert_email
    use_common_alert_schema = true
  }
}

resource "azurerm_monitor_scheduled_query_rules_alert_v2" "log" {
  for_each = local.log_alerts

  name                    = "${var.name}-${each.key}"
  display_name            = "Sluice ${var.name}: ${each.value.title}"
  description             = each.value.remedy
  resource_group_name     = var.resource_group_name
  location                = var.location
  scopes                  = [azurerm_log_analytics_workspace.logs.id]
  severity                = each.value.severity
  evaluation_frequency    = each.value.every
  window_duration         = each.value.window
  auto_mitigation_enabled = true
  skip_query_validation   = true # a new workspace knows no table before its first line
  tags                    = local.tags

  criteria {
    query                   = join("\n", each.value.query)
    time_aggregation_method = "Count"
    operator                = each.value.operator
    threshold               = each.value.threshold

    dynamic "dimension" {
      for_each = each.value.dimensions
      content {
        name     = dimension.value
        operator = "Include"
        values   = ["*"]
      }
    }
    failing_periods {
      minimum_failing_periods_to_trigger_alert = each.value.failing[0]
      number_of_evaluation_periods             = each.value.failing[1]
    }
  }

  action {
    action_groups = local.told
  }
}

resource "azurerm_monitor_metric_alert" "topic" {
  for_each = local.alerts_by_topic

  name                = "${var.name}-${each.value.cluster}-${each.value.key}"
  description         = "Sluice ${var.name}, cluster ${each.value.cluster}: ${each.value.title}. ${each.value.remedy}"
  resource_group_name = var.resource_group_name
  scopes              = [azurerm_eventgrid_topic.cluster[each.value.cluster].id]
  severity            = each.value.severity
  frequency           = "PT5M"
  window_size         = "PT15M"
  tags                = local.tags

  criteria {
    metric_namespace = "Microsoft.EventGrid/topics"
    metric_name      = each.value.metric
    aggregation      = "Total"
    operator         = "GreaterThan"
    threshold        = 0
  }

  dynamic "action" {
    for_each = local.told
    content {
      action_group_id = action.value
    }
  }
}
