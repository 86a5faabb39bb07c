"""No secret in what rolls Sluice out: none asked for, read, made, kept in a state, or put out; the rest is listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shared.adapters.composition import KUBECONFIG_PREFIX
from tests.infra.readers import BICEP, INFRA, TERRAFORM, terraform_blocks, terraform_text

SOURCES = sorted(path for path in TERRAFORM.rglob("*.tf") if ".terraform" not in path.parts)
TEMPLATES = sorted((INFRA / "helm").rglob("*.yaml")) + sorted((INFRA / "helm").rglob("*.tpl"))
DOCUMENT = (INFRA.parent / "docs" / "secrets.md").read_text()

KEEPS_SECRETS = re.compile(
    r'(?:resource|data|ephemeral) "('
    r"azurerm_key_vault_secret|azurerm_key_vault_key|azurerm_function_app_host_keys|azurerm_kubernetes_cluster"
    r"|azurerm_storage_account_sas|random_password|random_string|tls_private_key|azuread_application_password"
    r'|kubernetes_secret\w*)"'
)
"""Resources and data whose secrets Terraform would write into its state."""

SECRET_ATTRIBUTES = re.compile(
    r"\.(primary_access_key|secondary_access_key|primary_connection_string|secondary_connection_string"
    r"|primary_blob_connection_string|primary_shared_key|secondary_shared_key|instrumentation_key|kube_config\w*"
    r"|kube_admin_config\w*|client_secret|site_credential|admin_password)\b"
    r"|(?<!azurerm_application_insights\.app)\.connection_strings?\b"
)
"""The one exception opens nothing: see the test below."""
SECRET_VALUES = re.compile(r"AccountKey=|SharedAccessKey|SharedAccessSignature|[?&]sig=|client_secret\s*=|password\s*=")
LISTS_SECRETS = re.compile(
    r"\.?list(Keys|Secrets|AccountSas|ServiceSas|Credentials|\w*Credential)\(|@secure\(|getSecret\("
)


def named(path: Path) -> str:
    return str(path.relative_to(INFRA))


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_terraform_neither_makes_nor_reads_a_secret(path: Path) -> None:
    text = path.read_text()
    for pattern in (KEEPS_SECRETS, SECRET_ATTRIBUTES, SECRET_VALUES):
        assert not pattern.findall(text)
    assert "sensitive" not in re.sub(r"#.*", "", text)  # what is no secret need not be hidden


@pytest.mark.parametrize("path", sorted(BICEP.glob("*.bicep")), ids=named)
def test_bicep_neither_asks_for_nor_lists_a_secret(path: Path) -> None:
    text = path.read_text()
    assert not LISTS_SECRETS.findall(text)
    assert not SECRET_VALUES.findall(text)


@pytest.mark.parametrize("path", TEMPLATES, ids=named)
def test_the_chart_brings_no_secret_and_takes_none(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"^kind: Secret$", text, re.MULTILINE)
    assert "secretKeyRef" not in text
    assert not re.search(r"name: \w*(KEY|TOKEN|PASSWORD|SECRET|CONNECTION_STRING)\b", text)
    assert "kubernetes.io/service-account-token" not in text


def test_what_must_be_secret_among_the_settings_is_a_reference_to_a_vault() -> None:
    app = (TERRAFORM / "base" / "app.tf").read_text()
    given = dict(re.findall(r'^\s+"(\w+)"\s*=\s*(.+)$', app, re.MULTILINE))
    assert given
    suspicious = {name for name in given if re.search(r"KEY|SECRET|PASSWORD|TOKEN|CONNECTION_STRING", name)}
    assert suspicious == {"SLUICE_FUNCTION_KEYS"}  # whether keys open the app: no key itself
    assert f'"{KUBECONFIG_PREFIX}' in app
    assert "@Microsoft.KeyVault(SecretUri=" in app


def test_the_connection_string_of_insights_opens_nothing() -> None:
    (insights,) = (
        body for kind, _, body in terraform_blocks("base", "resource") if kind == "azurerm_application_insights"
    )
    assert insights["local_authentication_enabled"] is False
    assert "DisableLocalAuth: true" in (BICEP / "base.bicep").read_text()


def test_no_output_is_named_after_a_secret() -> None:
    for stage in ("base", "wire"):
        for _, label, body in terraform_blocks(stage, "output"):
            assert not re.search(r"key|secret|password|token|connection_string|kubeconfig", label), label
            assert "description" in body


def test_subscriptions_name_the_function_and_no_address_with_a_key() -> None:
    text = terraform_text("wire")
    assert "azure_function_endpoint" in text
    assert "webhook_endpoint" not in text


@pytest.mark.parametrize("secret", ["eventgrid_extension", "token of a cluster without Entra", "notice webhooks"])
def test_what_cannot_be_avoided_is_listed_with_owner_place_and_rotation(secret: str) -> None:
    (row,) = (line for line in DOCUMENT.splitlines() if line.startswith("|") and secret in line)
    name, owner, place, opens, rotation = (cell.strip() for cell in row.strip("|").split("|"))
    assert all((name, owner, place, opens, rotation))
    for anchor in re.findall(r"\(#([\w-]+)\)", rotation):
        headings = (
            re.sub(r"[^\w -]", "", line.lstrip("# ").lower()) for line in DOCUMENT.splitlines() if line[:1] == "#"
        )
        assert anchor in {heading.replace(" ", "-") for heading in headings}
