"""Groups that go on without some of their ranks."""

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from r2ccl import group_health

SHRINK_DEFAULT, SHRINK_ABORT = 0, 1


def shrink_group(ranks_to_exclude, group=None, shrink_flags=SHRINK_DEFAULT, pg_options=None):
    """Returns a group without these ranks of the group (by default of the default one), as
    torch.distributed.shrink_group, and ends the old one, which may have failed.

    ranks_to_exclude: ranks of the group, which may be dead; `ranks` of a RemoteRankError has them.
    The others must all call this with the same list. shrink_flags: SHRINK_ABORT first ends the
    operations of the group on all ranks. pg_options: a r2ccl.Config or None.

    A smaller default group becomes the default one. Its ranks are numbered anew, so all other
    groups end. Raises RemoteRankError when one more rank has died: call again without that one, too.
    """
    old = dist.group.WORLD if group is None else group
    made = group_health.member(old, "shrink_group").without_ranks(
        ranks_to_exclude, shrink_flags, pg_options)
    if old is dist.group.WORLD:
        for other in list(c10d._world.pg_map):
            if other is not old:
                other.abort()
        dist.destroy_process_group()
        made.become_default()
        c10d._update_default_pg(made)
    else:
        dist.destroy_process_group(old)
    _register(made, {place: rank for rank, place in enumerate(made.global_ranks())})
    return made


def _register(group, ranks):
    """Makes torch know the group. ranks: {global rank: rank of the group}."""
    world, tag = c10d._world, f"ptd:{group.group_name}"
    world.pg_map[group] = ("r2ccl", group.get_group_store())
    world.pg_names[group] = group.group_name
    world.pg_backend_config[group] = str(c10d.BackendConfig(dist.Backend("r2ccl")))
    world.pg_group_ranks[group] = ranks
    world.pg_to_tag[group] = tag
    world.tags_to_pg.setdefault(tag, []).append(group)
    world.tags_to_pg.setdefault("", []).append(group)
    c10d._register_process_group(group.group_name, group)
