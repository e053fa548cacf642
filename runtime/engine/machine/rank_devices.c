#include "engine/machine/rank_devices.h"

#include "engine/machine/gpus.h"

yk_status yk_rank_devices_open(const yk_settings *settings, yk_cluster *cluster, yk_rank_devices *out, yk_err *err)
{
  *out = (yk_rank_devices){.n_local = settings->world.n_local};
  if (cluster) out->wires = settings->wires ? *settings->wires : yk_cluster_wires(cluster);
  if (settings->device == YK_DEVICE_CUDA) {
    YK_TRY(yk_gpus_open(settings, out->devs, err));
    const yk_exchange exchange = cluster ? yk_cluster_exchange(cluster) : yk_exchange_alone();
    return yk_gpus_connect(settings, &exchange, cluster ? &out->wires : NULL, out->devs, out->comms, err);
  }
  for (int rank = 0; rank < settings->world.n_local; rank++)
    YK_TRY(yk_cpu_device_create(settings->dtype, settings->n_threads_per_rank, &settings->limits.step, &out->devs[rank],
                                err));
  if (!cluster) return yk_comm_local_create(&settings->world, out->devs, out->comms, err);
  return yk_comm_processes_create(&settings->world, &out->wires, out->devs, out->comms, err);
}

bool yk_rank_devices_close(yk_rank_devices *devices)
{
  bool is_gone = true;
  for (int rank = 0; rank < devices->n_local; rank++)
    if (devices->comms[rank] && !devices->comms[rank]->ops->destroy(devices->comms[rank])) is_gone = false;
  for (int rank = 0; rank < devices->n_local; rank++) /* an end may use its peers' devices until all ends are gone */
    if (devices->devs[rank]) devices->devs[rank]->ops->destroy(devices->devs[rank]);
  *devices = (yk_rank_devices){0};
  return is_gone;
}
