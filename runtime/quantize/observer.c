#include "quantize/observer.h"

static const yk_observer *observer_of(const yk_device *dev)
{
  return (const yk_observer *)dev->ops;
}

static yk_status linear_create(yk_device *dev, const yk_linear_spec *spec, yk_linear **out, yk_err *err)
{
  const yk_observer *observer = observer_of(dev);
  YK_TRY(observer->inner->linear_create(dev, spec, out, err));
  yk_status status = observer->on_create(observer->user, spec, *out, err);
  if (status == YK_OK) return YK_OK;
  observer->inner->linear_destroy(dev, *out);
  *out = NULL;
  return status;
}

static yk_status linear_forward(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err)
{
  const yk_observer *observer = observer_of(dev);
  YK_TRY(observer->on_forward(observer->user, linear, args, err));
  return observer->inner->linear_forward(dev, linear, args, err);
}

static yk_status linear_forward_grouped(yk_device *dev, const yk_linear *linear, const yk_linear_grouped_args *args,
                                        yk_err *err)
{
  const yk_observer *observer = observer_of(dev);
  yk_linear_grouped_args alone = *args;
  alone.route = NULL;
  alone.beside = NULL;
  alone.next = NULL;
  if (args->beside) YK_TRY(linear_forward(dev, args->beside->linear, &args->beside->args, err));
  if (args->route) YK_TRY(dev->ops->route(dev, args->route, err));
  YK_TRY(observer->on_grouped(observer->user, linear, &alone, err));
  return observer->inner->linear_forward_grouped(dev, linear, &alone, err);
}

static yk_status route(yk_device *dev, const yk_route_args *args, yk_err *err)
{
  const yk_observer *observer = observer_of(dev);
  YK_TRY(observer->inner->route(dev, args, err));
  return observer->on_route(observer->user, args, err);
}

static yk_status latent_rope_cache(yk_device *dev, const yk_latent_rope_cache_args *args, yk_err *err)
{
  const yk_observer *observer = observer_of(dev);
  YK_TRY(observer->inner->latent_rope_cache(dev, args, err));
  return observer->on_latent(observer->user, args, err);
}

static yk_status latent_attention(yk_device *dev, const yk_latent_attention_args *args, yk_err *err)
{
  yk_latent_attention_args cached = *args;
  cached.to_cache = NULL;
  if (args->to_cache) YK_TRY(dev->ops->latent_rope_cache(dev, args->to_cache, err));
  return observer_of(dev)->inner->latent_attention(dev, &cached, err);
}

void yk_observer_attach(yk_observer *observer, yk_device *dev)
{
  observer->inner = dev->ops;
  observer->ops = *dev->ops;
  observer->ops.linear_create = linear_create;
  observer->ops.linear_forward = linear_forward;
  if (dev->ops->linear_forward_grouped) observer->ops.linear_forward_grouped = linear_forward_grouped;
  if (dev->ops->route) observer->ops.route = route;
  if (dev->ops->latent_rope_cache) {
    observer->ops.latent_rope_cache = latent_rope_cache;
    observer->ops.latent_attention = latent_attention;
  }
  dev->ops = &observer->ops;
}

void yk_observer_detach(const yk_observer *observer, yk_device *dev)
{
  dev->ops = observer->inner;
}
