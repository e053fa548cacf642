#include "comm/cluster_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>

void cluster_parties(cluster_party *parties, int n_processes, const int *ranks, const char *host)
{
  yk_listener listener;
  int n_ranks = 0;
  assert_int_equal(yk_listener_open(host, 0, &listener, NULL), YK_OK);
  for (int p = 0; p < n_processes; p++) n_ranks += ranks[p];
  for (int p = 0, first = 0; p < n_processes; first += ranks[p++]) {
    parties[p] = (cluster_party){.listener = listener, .err = YK_ERR_INIT};
    parties[p].options =
        (yk_cluster_options){.process = p,
                             .n_processes = n_processes,
                             .world = {.n_ranks = n_ranks, .first_rank = first, .n_local = ranks[p], .n_stages = 1},
                             .master_host = host,
                             .master_port = listener.port,
                             .listener = p == 0 ? &parties[0].listener : NULL,
                             .key = "a secret",
                             .start_timeout_s = 60,
                             .silence_limit_s = 30};
  }
}

static void *join(void *context)
{
  cluster_party *party = context;
  party->status = yk_cluster_join(&party->options, &party->cluster, &party->report, &party->err);
  if (party->status != YK_OK) party->cluster = NULL;
  return NULL;
}

static void *leave(void *context)
{
  cluster_party *party = context;
  yk_cluster_leave(party->cluster, 30);
  free(party->report);
  *party = (cluster_party){0};
  return NULL;
}

static void run_all(cluster_party *parties, int n, void *(*run)(void *))
{
  pthread_t threads[YK_CLUSTER_MAX_PROCESSES];
  for (int p = 0; p < n; p++) assert_int_equal(pthread_create(&threads[p], NULL, run, &parties[p]), 0);
  for (int p = 0; p < n; p++) pthread_join(threads[p], NULL);
}

void cluster_join_all(cluster_party *parties, int n)
{
  run_all(parties, n, join);
}

void cluster_leave_all(cluster_party *parties, int n)
{
  run_all(parties, n, leave);
}
