/* world.h - the ranks of a run: those that are threads of this process, and the division of the model among them.
 *
 *   ranks       0 1 2 3 4 5 6 7          n_ranks
 *   processes   |-----| |-----|          each runs n_local consecutive ranks from first_rank on
 *   stages      |-----| |-----|          each has a contiguous range of layers
 *   groups      |-----| |-----|          the ranks of a stage split every layer of it: tensor parallelism
 *
 * A stage's ranks are one tensor-parallel group of consecutive ranks. A communicator belongs to one group, and shards
 * depend on a rank's number in its group. Rank 0's process has engine, scheduler and sampling. Pure arithmetic. */
#ifndef YK_PARALLEL_WORLD_H
#define YK_PARALLEL_WORLD_H

#include <stdbool.h>

#include "base/status.h"
#include "yoke/limits.h"

typedef struct yk_world {
  int n_ranks;             /* ranks of all processes, at most YK_MAX_RANKS */
  int first_rank, n_local; /* ranks of this process */
  int n_stages;            /* n_ranks is a multiple of n_stages */
} yk_world;

/* yk_world_of_process - n_ranks ranks, all of this process, one stage. */
yk_world yk_world_of_process(int n_ranks);

/* yk_world_check - checks the ranges of all members. Errors: YK_E_INVAL, naming the member that is out of range. */
yk_status yk_world_check(const yk_world *world, yk_err *err);

/* yk_world_group_size - ranks of each tensor-parallel group. */
static inline int yk_world_group_size(const yk_world *world)
{
  return world->n_ranks / world->n_stages;
}

/* yk_world_stage_of - the pipeline stage of a rank. */
static inline int yk_world_stage_of(const yk_world *world, int rank)
{
  return rank / yk_world_group_size(world);
}

/* yk_world_group_rank - a rank's number in its group. */
static inline int yk_world_group_rank(const yk_world *world, int rank)
{
  return rank % yk_world_group_size(world);
}

/* yk_world_is_local - whether a rank is a thread of this process. */
static inline bool yk_world_is_local(const yk_world *world, int rank)
{
  return rank >= world->first_rank && rank < world->first_rank + world->n_local;
}

/* yk_world_is_whole - whether every rank is local. */
static inline bool yk_world_is_whole(const yk_world *world)
{
  return world->n_local == world->n_ranks;
}

#endif
