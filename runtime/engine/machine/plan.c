/* plan.c - the memory that a model would take on a machine, without loading the model. */
#include "base/arguments.h"
#include "base/struct_size.h"
#include "engine/machine/gpus.h"
#include "engine/machine/settings_resolve.h"

static yk_status make(const yk_engine_options *options, int64_t device_memory_bytes, yk_plan *out, yk_err *err)
{
  yk_checkpoint *checkpoint;
  yk_settings settings;
  *out = (yk_plan){.n_ranks = options->n_ranks};
  YK_TRY(yk_check_i64("device_memory_bytes", device_memory_bytes, 0, INT64_C(1) << 50, err));
  if (!options->model_dir)
    return yk_err_set(err, YK_E_INVAL, "model_dir: expected a checkpoint directory, found nothing");
  if (options->device == YK_DEVICE_CUDA && !device_memory_bytes && yk_gpus_count() == 0)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "device cuda: this machine has no GPU whose memory could be read: set device_memory_bytes "
                      "(--device-memory) to the memory of each");
  const yk_config_changes changes = yk_settings_config_changes(options);
  YK_TRY(yk_checkpoint_open_for_sizes(options->model_dir, &changes, &options->log, &checkpoint, err));
  yk_err local = YK_ERR_INIT;
  yk_status status = yk_settings_resolve(options, checkpoint, device_memory_bytes, NULL, &settings, out, &local);
  out->assumes_formats = !yk_checkpoint_has_weights(checkpoint);
  yk_checkpoint_close(checkpoint);
  if (status == YK_E_CAPACITY) return YK_OK; /* a valid result, explained in out->reason */
  if (status != YK_OK && err && err->code == YK_OK) *err = local;
  return status;
}

yk_status yk_plan_make_sized(const yk_engine_options *options, int64_t device_memory_bytes, yk_plan *out,
                             size_t struct_size, yk_err *err)
{
  yk_plan plan = {0};
  yk_engine_options own;
  yk_status status = yk_engine_options_read(options, &own, err);
  if (own.n_processes > 1) own.device_ids = NULL; /* a plan is of all ranks, as if one host had them */
  own.n_processes = 1;
  if (status == YK_OK) status = make(&own, device_memory_bytes, &plan, err);
  yk_struct_write(out, struct_size, &plan, sizeof plan);
  return status;
}
