#include "engine/machine/processes.h"

#include <string.h>

static const double LEAVE_S = 10; /* for followers to free their ranks */

void yk_processes_leave(yk_cluster *cluster)
{
  yk_cluster_leave(cluster, LEAVE_S);
}

yk_status yk_processes_fail(yk_cluster *cluster, yk_status status, yk_err *err)
{
  yk_err failure = YK_ERR_INIT;
  if (status == YK_OK || !cluster) return status;
  if (yk_cluster_check(cluster, &failure) == YK_OK) {
    yk_err_set(&failure, status, "%s", err && err->code != YK_OK ? err->message : yk_status_name(status));
    failure.rank = err ? err->rank : -1;
    yk_cluster_abort(cluster, &failure);
    return status;
  }
  if (err) *err = failure;
  return failure.code;
}

yk_status yk_processes_smallest(yk_cluster *cluster, int64_t value, int64_t *least, int *process, yk_err *err)
{
  int64_t all[YK_CLUSTER_MAX_PROCESSES] = {value};
  int n = cluster ? yk_cluster_n_processes(cluster) : 1;
  *process = 0;
  if (cluster) {
    const yk_exchange exchange = yk_cluster_exchange(cluster);
    YK_TRY(exchange.all_gather(&exchange, &value, sizeof value, all, err));
  }
  for (int i = 1; i < n; i++)
    if (all[i] < all[*process]) *process = i;
  *least = all[*process];
  return YK_OK;
}

yk_status yk_processes_barrier(yk_cluster *cluster, yk_err *err)
{
  int64_t least;
  int process;
  return yk_processes_smallest(cluster, 0, &least, &process, err);
}

int yk_processes_on_host(const yk_cluster *cluster)
{
  int n = 0;
  if (!cluster) return 1;
  const char *host = yk_cluster_host(cluster, yk_cluster_process(cluster));
  for (int i = 0; i < yk_cluster_n_processes(cluster); i++) n += strcmp(yk_cluster_host(cluster, i), host) == 0;
  return n;
}

bool yk_processes_share_host(const yk_cluster *cluster)
{
  return !cluster || yk_processes_on_host(cluster) == yk_cluster_n_processes(cluster);
}
