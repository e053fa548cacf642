#include "engine/machine/remote_profiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/machine/processes.h"
#include "engine/machine/remote_buffer.h"

enum { NAME_BYTES = 34 };

/* A stamp in a message. */
typedef struct sent_stamp {
  int64_t begin_ns;
  int32_t layer;
  uint8_t kind, is_internal;
  char name[NAME_BYTES];
} sent_stamp;

/* The profile of a rank in a message: the head, then the number of stamps of the step's longest profile. */
typedef struct sent_head {
  int64_t forward_begin_ns, forward_end_ns, resolution_ns;
  double stamp_ns;
  int32_t n;
  int32_t is_whole;
} sent_head;

_Static_assert(sizeof(sent_stamp) == 48 && sizeof(sent_head) == 40, "messages have no padding");

struct yk_remote_profiles {
  yk_cluster *cluster;
  yk_world world;
  yk_step_profile ranks[YK_MAX_RANKS]; /* process 0: those of other processes own their arrays */
  yk_remote_buffer mine, all;
};

yk_status yk_remote_profiles_create(yk_cluster *cluster, yk_remote_profiles **out, yk_err *err)
{
  yk_remote_profiles *p = calloc(1, sizeof *p);
  if (!p) return yk_err_set(err, YK_E_NOMEM, "no memory for the profiles of other processes");
  p->cluster = cluster;
  p->world = yk_cluster_world(cluster, yk_cluster_process(cluster));
  *out = p;
  return YK_OK;
}

void yk_remote_profiles_destroy(yk_remote_profiles *p)
{
  if (!p) return;
  for (int rank = 0; rank < YK_MAX_RANKS; rank++) yk_step_profile_destroy(&p->ranks[rank]);
  free(p->mine.bytes);
  free(p->all.bytes);
  free(p);
}

/* ---- Sending ----------------------------------------------------------------------------------------------------- */

static void write_profile(char *to, const yk_step_profile *profile)
{
  sent_head head = {.forward_begin_ns = profile->forward_begin_ns,
                    .forward_end_ns = profile->forward_end_ns,
                    .resolution_ns = profile->resolution_ns,
                    .stamp_ns = profile->stamp_ns,
                    .n = profile->n,
                    .is_whole = profile->is_whole};
  memcpy(to, &head, sizeof head);
  for (int32_t i = 0; i < profile->n; i++) {
    const yk_timed_operation *operation = &profile->operations[i];
    sent_stamp stamp = {.begin_ns = profile->begin_ns[i],
                        .layer = operation->layer,
                        .kind = (uint8_t)operation->kind,
                        .is_internal = operation->is_internal};
    snprintf(stamp.name, sizeof stamp.name, "%s", operation->name);
    memcpy(to + sizeof head + (size_t)i * sizeof stamp, &stamp, sizeof stamp);
  }
}

/* ---- Receiving --------------------------------------------------------------------------------------------------- */

/* A static text in place of a received text: the name of the same operation of a rank of this process. */
static const char *name_of(const sent_stamp *stamp, const yk_step_profile *own)
{
  for (int32_t i = 0; i < own->n; i++)
    if (strncmp(own->operations[i].name, stamp->name, NAME_BYTES - 1) == 0) return own->operations[i].name;
  return "other operation";
}

static yk_status reserve_stamps(yk_step_profile *profile, int32_t n, yk_err *err)
{
  if (n <= profile->capacity) return YK_OK;
  yk_step_profile_destroy(profile);
  *profile = (yk_step_profile){.operations = calloc((size_t)n, sizeof *profile->operations),
                               .begin_ns = calloc((size_t)n, sizeof *profile->begin_ns)};
  if (!profile->operations || !profile->begin_ns)
    return yk_err_set(err, YK_E_NOMEM, "no memory for the timestamps of %d operations", n);
  profile->capacity = n;
  return YK_OK;
}

/* own: the profile of rank 0. */
static yk_status read_profile(yk_step_profile *profile, const char *from, int32_t most, bool is_other_host,
                              const yk_step_profile *own, yk_err *err)
{
  sent_head head;
  memcpy(&head, from, sizeof head);
  if (head.n < 0 || head.n > most)
    return yk_err_set(err, YK_E_COMM, "profile of another process: expected up to %d timestamps, found %d", most,
                      head.n);
  YK_TRY(reserve_stamps(profile, head.n, err));
  int64_t shift_ns = is_other_host ? own->forward_end_ns - head.forward_end_ns : 0;
  profile->n = head.n;
  profile->is_whole = head.is_whole != 0;
  profile->stamp_ns = head.stamp_ns;
  profile->resolution_ns = head.resolution_ns;
  profile->forward_begin_ns = head.forward_begin_ns + shift_ns;
  profile->forward_end_ns = head.forward_end_ns + shift_ns;
  profile->read_end_ns = yk_clock_now_ns(); /* the gather is a part of reading the stamps */
  for (int32_t i = 0; i < head.n; i++) {
    sent_stamp stamp;
    memcpy(&stamp, from + sizeof head + (size_t)i * sizeof stamp, sizeof stamp);
    profile->operations[i] = (yk_timed_operation){.kind = (yk_operation_kind)stamp.kind,
                                                  .layer = stamp.layer,
                                                  .name = name_of(&stamp, own),
                                                  .is_internal = stamp.is_internal != 0};
    profile->begin_ns[i] = stamp.begin_ns;
  }
  return YK_OK;
}

static yk_status read_all(yk_remote_profiles *p, int32_t most, size_t rank_bytes, const yk_step_profile *own,
                          yk_err *err)
{
  const char *host = yk_cluster_host(p->cluster, 0);
  for (int rank = p->world.n_local; rank < p->world.n_ranks; rank++) {
    bool is_other_host = strcmp(host, yk_cluster_host(p->cluster, yk_cluster_process_of(p->cluster, rank))) != 0;
    YK_TRY(read_profile(&p->ranks[rank], (const char *)p->all.bytes + (size_t)rank * rank_bytes, most, is_other_host,
                        own, err));
  }
  return YK_OK;
}

/* The processes have equal numbers of ranks, so the gathered bytes are in the order of ranks. */
yk_status yk_remote_profiles_gather(yk_remote_profiles *p, yk_model *const *models, yk_err *err)
{
  const yk_exchange exchange = yk_cluster_exchange(p->cluster);
  int64_t most = 0;
  int process;
  for (int i = 0; i < p->world.n_local; i++) most = yk_max_i64(most, yk_model_profile(models[i])->n);
  YK_TRY(yk_processes_smallest(p->cluster, -most, &most, &process, err));
  most = -most;
  size_t rank_bytes = sizeof(sent_head) + (size_t)most * sizeof(sent_stamp);
  size_t mine_bytes = rank_bytes * (size_t)p->world.n_local;
  YK_TRY(yk_remote_buffer_reserve(&p->mine, mine_bytes, "profiles", err));
  YK_TRY(yk_remote_buffer_reserve(&p->all, rank_bytes * (size_t)p->world.n_ranks, "profiles", err));
  memset(p->mine.bytes, 0, mine_bytes);
  for (int i = 0; i < p->world.n_local; i++)
    write_profile((char *)p->mine.bytes + (size_t)i * rank_bytes, yk_model_profile(models[i]));
  YK_TRY(exchange.all_gather(&exchange, p->mine.bytes, mine_bytes, p->all.bytes, err));
  if (yk_cluster_process(p->cluster) != 0) return YK_OK;
  return read_all(p, (int32_t)most, rank_bytes, yk_model_profile(models[0]), err);
}

const yk_step_profile *yk_remote_profiles_of(const yk_remote_profiles *profiles, int rank)
{
  return &profiles->ranks[rank];
}
