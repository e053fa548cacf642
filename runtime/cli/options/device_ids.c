#include "cli/options/device_ids.h"

#include "cli/options/options.h"
#include "yoke/yoke.h"

const char *const yk_device_names[] = {"auto", "cpu", "cuda", NULL};

yk_status yk_device_ids_parse(void *device_ids, const char *text, yk_err *err)
{
  yk_device_ids *list = device_ids;
  list->n = 0;
  YK_TRY(yk_int_list_parse(text, &list->ids, &list->n, err));
  if (list->n > YK_MAX_RANKS)
    return yk_err_set(err, YK_E_INVAL, "expected at most %d devices, found %zu", YK_MAX_RANKS, list->n);
  for (size_t i = 0; i < list->n; i++) {
    if (list->ids[i] < 0) return yk_err_set(err, YK_E_INVAL, "expected device numbers from 0, found %d", list->ids[i]);
    for (size_t j = 0; j < i; j++)
      if (list->ids[i] == list->ids[j])
        return yk_err_set(err, YK_E_INVAL, "expected each device once, found %d twice", list->ids[i]);
  }
  return YK_OK;
}

yk_status yk_device_ids_check(const yk_device_ids *list, int device, int n_ranks, const char *ranks_option, yk_err *err)
{
  if (!list->n) return YK_OK;
  if (n_ranks && (size_t)n_ranks != list->n)
    return yk_err_set(err, YK_E_INVAL, "--devices: expected %d devices, one for each rank (%s), found %zu", n_ranks,
                      ranks_option, list->n);
  if (device == YK_DEVICE_CPU)
    return yk_err_set(err, YK_E_INVAL, "--devices: expected --device auto or cuda with it, found cpu; leave one out");
  return YK_OK;
}
