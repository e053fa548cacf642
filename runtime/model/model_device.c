#include "model/model_device.h"

#include "base/strbuf.h"

static const char *separator(const yk_strbuf *list)
{
  return list->length > 0 ? ", " : "";
}

static void check_head_dim(int32_t head_dim, const yk_device_abilities *device, yk_strbuf *list)
{
  if (head_dim > device->max_head_dim || head_dim % device->head_dim_unit != 0)
    yk_strbuf_append_fmt(list, "%sheads of %d elements (supported: multiples of %d up to %d)", separator(list),
                         head_dim, device->head_dim_unit, device->max_head_dim);
}

static void list_sizes(const yk_model_config *c, const yk_device_abilities *device, yk_strbuf *list)
{
  if (c->latent.kv_rank == 0) {
    check_head_dim(c->head_dim, device, list);
    if (c->local.head_dim > 0 && c->local.head_dim != c->head_dim) check_head_dim(c->local.head_dim, device, list);
  }
  if (c->hidden_size > device->max_hidden)
    yk_strbuf_append_fmt(list, "%shidden_size %d (supported: up to %d)", separator(list), c->hidden_size,
                         device->max_hidden);
  if (c->vocab_size > device->max_vocab)
    yk_strbuf_append_fmt(list, "%svocab_size %d (supported: up to %d)", separator(list), c->vocab_size,
                         device->max_vocab);
}

yk_status yk_model_check_device(const yk_model_config *config, const yk_device_abilities *device, yk_err *err)
{
  yk_strbuf list = YK_STRBUF_INIT;
  yk_status status = YK_OK;
  list_sizes(config, device, &list);
  if (list.failed)
    status = yk_err_set(err, YK_E_NOMEM, "%s device: no memory to check the model", device->name);
  else if (list.length > 0)
    status = yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s device: sizes of the model are not supported: %s; CPU ranks (--device cpu) run it",
                        device->name, list.data);
  yk_strbuf_free(&list);
  return status;
}
