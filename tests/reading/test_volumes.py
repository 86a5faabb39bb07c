"""What a pod's volumes ask of its node, as the scheduler's volume plugins read them."""

import pytest

from shared.model import Requirement
from shared.reading.pods import shape_of
from shared.reading.projection import project, project_node, storage_seen
from shared.reading.storage import Kind
from shared.reading.volumes import NO_PROVISIONER
from shared.rules.predicates import static_refusal
from tests.builders import NOW, ground
from tests.reading.builders import CONFIG, node, owned, pod
from tests.reading.storage import (
    DISK,
    DISK_ZONE,
    ZONE,
    allowed,
    attachment,
    claim,
    csi_node,
    lists,
    storage,
    storage_class,
    uses,
    volume,
)

DISKS = f"attachable-volumes-csi-{DISK}"
CLAIMING = pod("p", volumes=uses("data"))


def shaped(written=CLAIMING, *others, **given):
    return shape_of(written, storage=storage(written, *others, **given))


def refusal(shape, **labels):
    return static_refusal(shape, ground(labels={key.replace("_", "/"): value for key, value in labels.items()}))


def reasons(shape):
    return [place.reason for place in shape.volumes if not place.terms]


# Bound claims


def test_a_bound_disk_is_used_where_its_node_affinity_allows():
    shape = shaped(claims=[claim(volume="pv-1")], volumes=[volume(zone="westeurope-1")])
    assert static_refusal(shape, ground(labels={DISK_ZONE: "westeurope-1"})) is None
    refused = static_refusal(shape, ground(labels={DISK_ZONE: "westeurope-2"}))
    assert refused == (
        f"VolumeBinding: a volume needs {DISK_ZONE} In [westeurope-1], a new node has {DISK_ZONE}=westeurope-2"
    )


def test_every_volume_of_a_pod_must_allow_the_node():
    shape = shaped(
        pod("p", volumes=uses("data", "logs")),
        claims=[claim(volume="pv-1"), claim("logs", volume="pv-2")],
        volumes=[volume(zone="westeurope-1"), volume("pv-2", zone="westeurope-2")],
    )
    assert len(shape.volumes) == 2
    assert all(static_refusal(shape, ground(labels={DISK_ZONE: f"westeurope-{n}"})) for n in (1, 2))


def test_what_volumes_ask_is_no_part_of_the_pods_own_affinity():
    shape = shaped(claims=[claim(volume="pv-1")], volumes=[volume(zone="westeurope-1")])
    assert shape.affinity is None


def test_pods_with_disks_of_one_zone_are_interchangeable():
    known = storage(
        claims=[claim("a", volume="pv-a"), claim("b", volume="pv-b")],
        volumes=[volume("pv-a", zone="westeurope-1"), volume("pv-b", zone="westeurope-1")],
    )
    assert shape_of(pod("p", volumes=uses("a")), storage=known) is shape_of(pod("q", volumes=uses("b")), storage=known)


def test_a_file_share_that_no_driver_attaches_asks_for_nothing():
    share = volume(source={"nfs": {"server": "files", "path": "/"}})
    assert shaped(claims=[claim(volume="pv-1")], volumes=[share]) == shape_of(pod("p"))


@pytest.mark.parametrize("key", [ZONE, "failure-domain.beta.kubernetes.io/zone"])
def test_a_zone_label_on_a_volume_speaks_by_both_its_names(key):
    shape = shaped(claims=[claim(volume="pv-1")], volumes=[volume(labels={key: "westeurope-1__westeurope-2"})])
    assert static_refusal(shape, ground(labels={ZONE: "westeurope-2"})) is None
    refused = static_refusal(shape, ground(labels={ZONE: "westeurope-3"}))
    assert refused is not None
    assert refused.startswith("VolumeZone: a volume needs ")


def test_a_node_without_any_zone_label_takes_a_volume_with_one():
    shape = shaped(claims=[claim(volume="pv-1")], volumes=[volume(labels={ZONE: "westeurope-1"})])
    assert static_refusal(shape, ground()) is None
    assert static_refusal(shape, ground(labels={"topology.kubernetes.io/region": "westeurope"})) is not None


def test_a_zone_label_that_is_none_is_ignored():
    shape = shaped(claims=[claim(volume="pv-1")], volumes=[volume(labels={ZONE: "westeurope-1__"})])
    assert shape.volumes == ()


# Claims that no node can help

AT_ONCE = "claim default/data is not bound; storage class managed binds at once: the volume controller must come first"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "claim default/data does not exist"),
        ({"claims": [claim(volume="pv-1", phase="Lost")]}, "claim default/data has lost its volume pv-1"),
        ({"claims": [claim(deletionTimestamp="2026-03-01T12:00:00Z")]}, "claim default/data is being deleted"),
        ({"claims": [claim(volume="pv-1")]}, "claim default/data is bound to volume pv-1, which does not exist"),
        (
            {"claims": [claim(volume="pv-1", annotations={})], "not_marked": True},
            "claim default/data waits for the volume controller to bind volume pv-1",
        ),
        ({"claims": [claim(storage_class="")]}, "claim default/data waits for a volume: it has no storage class"),
        ({"claims": [claim()]}, "claim default/data is of storage class managed, which does not exist"),
        (
            {"claims": [claim()], "classes": [storage_class(waits=False)]},
            AT_ONCE,
        ),
    ],
)
def test_a_claim_that_waits_for_somebody_else_is_named(given, reason):
    if given.pop("not_marked", False):
        del given["claims"][0]["metadata"]["annotations"]
    shape = shaped(**given)
    assert reasons(shape) == [f"VolumeBinding: {reason}"]
    assert refusal(shape) == f"VolumeBinding: {reason}"
    assert shape.not_modelled == ()


# Claims that bind with their first pod


def test_a_volume_to_be_made_asks_for_a_node_that_its_storage_class_allows():
    given = {"claims": [claim()], "classes": [storage_class(allowedTopologies=allowed("westeurope-1", "westeurope-2"))]}
    shape = shaped(**given)
    assert static_refusal(shape, ground(labels={DISK_ZONE: "westeurope-2"})) is None
    refused = static_refusal(shape, ground(labels={DISK_ZONE: "westeurope-3"}))
    assert refused is not None
    assert refused.startswith("VolumeBinding: its storage class needs ")


def test_a_volume_to_be_made_anywhere_asks_only_for_a_place_on_the_node():
    shape = shaped(claims=[claim()], classes=[storage_class()])
    assert shape.volumes == ()
    assert dict(shape.requests)[DISKS] == 1


def test_a_volume_that_is_being_made_for_a_node_holds_the_pod_there():
    chosen = claim(annotations={"volume.kubernetes.io/selected-node": "n1"})
    shape = shaped(claims=[chosen], classes=[storage_class()])
    assert static_refusal(shape, ground("n1")) is None
    assert static_refusal(shape, ground("n2")) == (
        "VolumeBinding: a volume that is being made needs metadata.name In [n1], a new node has metadata.name=n2"
    )


def test_the_second_pod_of_an_unbound_claim_waits_for_the_first():
    first, second = pod("a", volumes=uses("data")), pod("b", volumes=uses("data"))
    known = storage(first, second, claims=[claim()], classes=[storage_class()])
    assert reasons(shape_of(first, storage=known)) == []
    assert reasons(shape_of(second, storage=known)) == [
        "Waits: claim default/data is bound together with its first pod, default/a"
    ]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"classes": [storage_class(provisioner=NO_PROVISIONER)]}, "local volumes of storage class managed"),
        (
            {
                "classes": [storage_class()],
                "drivers": [{"metadata": {"name": DISK}, "spec": {"storageCapacity": True}}],
            },
            f"storage capacity of {DISK}",
        ),
    ],
)
def test_what_is_too_deep_is_refused_by_name(given, name):
    assert shaped(claims=[claim()], **given).not_modelled == (f"VolumeBinding ({name})",)


# Ephemeral volumes

EPHEMERAL = pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])


def own(uid="uid-default-p", **more):
    owner = {"kind": "Pod", "name": "p", "uid": uid, "controller": True}
    return claim("p-scratch", ownerReferences=[owner], **more)


def test_an_ephemeral_volume_has_a_claim_that_is_named_after_pod_and_volume():
    shape = shaped(EPHEMERAL, claims=[own(volume="pv-1")], volumes=[volume(zone="westeurope-1")])
    assert static_refusal(shape, ground(labels={DISK_ZONE: "westeurope-1"})) is None
    assert static_refusal(shape, ground()) is not None


def test_an_ephemeral_volumes_claim_must_be_the_pods_own():
    assert reasons(shaped(EPHEMERAL, claims=[own("uid-of-a-namesake", volume="pv-1")], volumes=[volume()])) == [
        "VolumeBinding: claim default/p-scratch is not this pod's own, as that of an ephemeral volume must be"
    ]


def test_an_ephemeral_volume_waits_until_its_claim_is_made():
    assert reasons(shaped(EPHEMERAL)) == [
        "VolumeBinding: claim default/p-scratch waits to be made by the ephemeral volume controller"
    ]


def test_a_pod_that_must_move_leaves_its_ephemeral_disk_behind():
    given = {"claims": [own(volume="pv-1")], "volumes": [volume(zone="westeurope-1")]}
    runs = pod("p", volumes=EPHEMERAL["spec"]["volumes"], nodeName="n")
    assert shaped(runs, classes=[storage_class()], **given).volumes == ()
    topologies = storage_class(allowedTopologies=allowed("westeurope-2"))
    (place,) = shaped(runs, classes=[topologies], **given).volumes
    assert place.terms[0].match_expressions == (Requirement(DISK_ZONE, "In", ("westeurope-2",)),)
    assert shaped(runs, classes=[storage_class(waits=False)], **given).not_modelled == (
        "VolumeBinding (ephemeral volume of storage class managed)",
    )


# ReadWriteOncePod

ONCE = claim(volume="pv-1", modes=["ReadWriteOncePod"])


def test_a_claim_for_one_pod_keeps_others_out_while_it_is_in_use():
    running = pod("a", volumes=uses("data"), nodeName="n")
    shape = shaped(CLAIMING, running, claims=[ONCE], volumes=[volume()])
    assert reasons(shape) == ["VolumeRestrictions: claim default/data is ReadWriteOncePod and in use by default/a"]
    assert reasons(shaped(running, CLAIMING, claims=[ONCE], volumes=[volume()])) == []


def test_of_several_that_wait_for_such_a_claim_one_comes_first():
    first, second = pod("a", volumes=uses("data")), pod("b", volumes=uses("data"))
    known = storage(first, second, claims=[ONCE], volumes=[volume()])
    assert reasons(shape_of(first, storage=known)) == []
    assert reasons(shape_of(second, storage=known)) == [
        "Waits: claim default/data is ReadWriteOncePod, and default/a comes first"
    ]


def test_other_claims_may_be_shared():
    running = pod("a", volumes=uses("data"), nodeName="n")
    assert shaped(CLAIMING, running, claims=[claim(volume="pv-1")], volumes=[volume()]).volumes == ()


# Volumes that a driver attaches


def test_each_distinct_disk_of_a_pod_is_one():
    shape = shaped(
        pod("p", volumes=[*uses("data", "logs"), {"name": "again", **uses("data")[0]}]),
        claims=[claim(volume="pv-1"), claim("logs", volume="pv-2")],
        volumes=[volume(), volume("pv-2")],
    )
    assert dict(shape.requests)[DISKS] == 2


@pytest.mark.parametrize(
    "given",
    [
        {"volumes": [volume(source={"azureDisk": {"diskURI": "/disks/1", "diskName": "1"}})]},
        {"volumes": [volume()]},
    ],
)
def test_a_disk_of_azures_old_kind_is_attached_by_the_driver_too(given):
    assert dict(shaped(claims=[claim(volume="pv-1")], **given).requests)[DISKS] == 1


def test_a_disk_that_the_pod_names_itself_counts_and_an_inline_csi_volume_does_not():
    disk = {"name": "d", "azureDisk": {"diskURI": "/disks/1", "diskName": "1"}}
    inline = {"name": "s", "csi": {"driver": "secrets-store.csi.k8s.io"}}
    assert dict(shape_of(pod("p", volumes=[disk, inline])).requests)[DISKS] == 1
    assert shape_of(pod("p", volumes=[inline])) == shape_of(pod("p"))


def test_a_node_shows_what_its_driver_can_attach_and_what_is_attached():
    pods = [pod(name, volumes=uses("data"), nodeName="n", meta=owned()) for name in "ab"]
    known = storage(
        *pods,
        claims=[claim(volume="pv-1")],
        volumes=[volume(), volume("pv-2")],
        nodes=[csi_node("n", 4)],
        attachments=[attachment("one", "n", "pv-1"), attachment("two", "n", "pv-2"), attachment("gone", "n", "pv-9")],
    )
    view = project_node(node("n"), pods, CONFIG, storage=known)
    assert view.allocatable[DISKS] == 4
    assert view.requested[DISKS] == 2  # pv-1, which two pods share, and pv-2, which is still being detached


def test_a_driver_without_a_limit_is_not_named_by_its_node():
    known = storage(nodes=[csi_node("n", None)])
    assert DISKS not in project_node(node("n"), [], CONFIG, storage=known).allocatable


# Not known


def test_without_the_right_to_read_claims_a_pod_with_one_is_refused_by_the_rights_name():
    unread = {Kind.VOLUMES: "no right to list persistentvolumes"}
    expected = ("VolumeBinding (no right to list persistentvolumes)",)
    assert shaped(claims=[claim(volume="pv-1")], unread=unread).not_modelled == expected
    running = pod("p", volumes=uses("data"), nodeName="n")
    assert shaped(running, claims=[claim(volume="pv-1")], unread=unread).not_modelled == expected


def test_a_pod_without_claims_needs_no_rights():
    assert shaped(pod("p", volumes=[{"name": "v", "emptyDir": {}}]), unread={Kind.CLAIMS: "no"}).not_modelled == ()


def test_a_whole_cluster_is_read_with_its_volumes():
    pods = [CLAIMING, pod("q", volumes=uses("data"), nodeName="n")]
    found = project(
        cluster="test",
        epoch=1,
        sequence=2,
        now=NOW,
        config=CONFIG,
        pods=pods,
        nodes=[node("n")],
        storage=storage_seen(pods, lists(claims=[ONCE], volumes=[volume(zone="westeurope-1")], nodes=[csi_node("n")])),
    )
    assert "ReadWriteOncePod and in use by default/q" in str(reasons(found.pending[0].shape))
    assert found.nodes[0].requested[DISKS] == 1
    assert [place.reason.partition(":")[0] for place in found.nodes[0].bound[0].shape.volumes] == ["VolumeBinding"]


def test_a_malformed_object_is_named():
    with pytest.raises(ValueError, match="csinodes: n is malformed"):
        storage(nodes=[{"metadata": {"name": "n"}, "spec": {"drivers": [{"allocatable": {"count": 1}}]}}])
