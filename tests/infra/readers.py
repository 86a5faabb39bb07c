"""What Terraform and Bicep declare, read from their sources: no cloud, no provider."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hcl2
import tree_sitter
import tree_sitter_bicep

INFRA = Path(__file__).parents[2] / "infra"
TERRAFORM, BICEP = INFRA / "terraform", INFRA / "bicep"

ARM_TYPES = {
    "azurerm_application_insights": "Microsoft.Insights/components",
    "azurerm_application_insights_workbook": "Microsoft.Insights/workbooks",
    "azurerm_eventgrid_event_subscription": "Microsoft.EventGrid/topics/eventSubscriptions",
    "azurerm_eventgrid_system_topic": "Microsoft.EventGrid/systemTopics",
    "azurerm_eventgrid_system_topic_event_subscription": "Microsoft.EventGrid/systemTopics/eventSubscriptions",
    "azurerm_eventgrid_topic": "Microsoft.EventGrid/topics",
    "azurerm_federated_identity_credential": (
        "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials"
    ),
    "azurerm_function_app_flex_consumption": "Microsoft.Web/sites",
    "azurerm_log_analytics_workspace": "Microsoft.OperationalInsights/workspaces",
    "azurerm_monitor_action_group": "Microsoft.Insights/actionGroups",
    "azurerm_monitor_metric_alert": "Microsoft.Insights/metricAlerts",
    "azurerm_monitor_scheduled_query_rules_alert_v2": "Microsoft.Insights/scheduledQueryRules",
    "azurerm_nat_gateway": "Microsoft.Network/natGateways",
    "azurerm_nat_gateway_public_ip_association": "Microsoft.Network/natGateways",
    "azurerm_private_dns_zone_virtual_network_link": "Microsoft.Network/privateDnsZones/virtualNetworkLinks",
    "azurerm_public_ip": "Microsoft.Network/publicIPAddresses",
    "azurerm_role_assignment": "Microsoft.Authorization/roleAssignments",
    "azurerm_role_definition": "Microsoft.Authorization/roleDefinitions",
    "azurerm_service_plan": "Microsoft.Web/serverfarms",
    "azurerm_storage_account": "Microsoft.Storage/storageAccounts",
    "azurerm_storage_container": "Microsoft.Storage/storageAccounts/blobServices/containers",
    "azurerm_storage_management_policy": "Microsoft.Storage/storageAccounts/managementPolicies",
    "azurerm_subnet": "Microsoft.Network/virtualNetworks/subnets",
    "azurerm_subnet_nat_gateway_association": "Microsoft.Network/virtualNetworks/subnets",
    "azurerm_user_assigned_identity": "Microsoft.ManagedIdentity/userAssignedIdentities",
    "azurerm_virtual_network": "Microsoft.Network/virtualNetworks",
}
"""What each azurerm resource is in ARM's own words."""


def terraform_blocks(stage: str, kind: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Type, label and body of every block of a kind (`resource`, `variable` ...) of a stage."""
    for file in sorted((TERRAFORM / stage).glob("*.tf")):
        for block in hcl2.loads(file.read_text()).get(kind, ()):
            for first, rest in block.items():
                if not first.startswith("__"):
                    for label, body in rest.items() if kind in {"resource", "data"} else [(first, rest)]:
                        yield bare(first), bare(label), body


def terraform_types(stage: str) -> Counter[str]:
    """How often each ARM type is declared."""
    found: Counter[str] = Counter()
    for kind, _, body in terraform_blocks(stage, "resource"):
        if kind == "azapi_resource":
            found[bare(body["type"]).partition("@")[0]] += 1
        elif not kind.startswith("azapi_"):
            found[ARM_TYPES[kind]] += 1
    return found


def terraform_text(stage: str) -> str:
    """The whole stage."""
    return "\n".join(file.read_text() for file in sorted((TERRAFORM / stage).glob("*.tf")))


def bicep_tree(file: str) -> tree_sitter.Tree:
    """Parsed; errors are nodes of their own."""
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bicep.language()))
    return parser.parse((BICEP / file).read_bytes())


def bicep_errors(file: str) -> list[str]:
    """What the grammar does not take, with line and column."""
    found: list[str] = []

    def look(node: tree_sitter.Node) -> None:
        if node.type == "ERROR" or node.is_missing:
            found.append(f"{file}:{node.start_point[0] + 1}:{node.start_point[1] + 1}")
        for child in node.children:
            look(child)

    look(bicep_tree(file).root_node)
    return found


def bicep_text(*files: str) -> str:
    """The files, one after the other."""
    return "\n".join((BICEP / file).read_text() for file in files)


def bicep_types(*files: str) -> Counter[str]:
    """How often each ARM type is declared; what is only referred to (`existing`) does not count."""
    found: Counter[str] = Counter()
    for match in re.finditer(r"^resource \w+ '([^'@]+)@[^']+' (existing )?=", bicep_text(*files), re.MULTILINE):
        if not match[2]:
            found[match[1]] += 1
    return found


def bare(text: str) -> str:
    """Without the quotes that the parser keeps."""
    return text.strip('"')
