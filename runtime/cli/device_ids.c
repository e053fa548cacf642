#include "cli/device_ids.h"

#include "cli/options.h"
#include "yoke.h"

yk_status yk_device_ids_parse(void *device_ids, const char *text, yk_err *err)
{
  yk_device_ids *list = device_ids;
  list->n = 0;
  YK_TRY(yk_int_list_parse(text, &list->ids, &list->n, err));
  if (list->n > YOKE_MAX_RANKS)
    return yk_err_set(err, YK_E_INVAL, "expected at most %d devices, found %zu", YOKE_MAX_RANKS, list->n);
  for (size_t i = 0; i < list->n; i++) {
    if (list->ids[i] < 0) return yk_err_set(err, YK_E_INVAL, "expected device numbers from 0, found %d", list->ids[i]);
    for (size_t j = 0; j < i; j++)
      if (list->ids[i] == list->ids[j]) return yk_err_set(err, YK_E_INVAL, "device %d occurs twice", list->ids[i]);
  }
  return YK_OK;
}
