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

static yk_status mixture_forward(yk_device *dev, const yk_mixture *mixture, const yk_mixture_args *args, yk_err *err)
{
  const yk_observer *observer = observer_of(dev);
  yk_mixture_taps taps;
  yk_mixture_args tapped = *args;
  tapped.taps = &taps;
  YK_TRY(observer->inner->mixture_forward(dev, mixture, &tapped, err));
  return observer->on_mixture(observer->user, mixture, &tapped, err);
}

static yk_status latent_attention(yk_device *dev, const yk_latent_attention_args *args, yk_err *err)
{
  const yk_observer *observer = observer_of(dev);
  YK_TRY(observer->inner->latent_attention(dev, args, err));
  return observer->on_latent(observer->user, args, err);
}

void yk_observer_attach(yk_observer *observer, yk_device *dev)
{
  observer->inner = dev->ops;
  observer->ops = *dev->ops;
  observer->ops.linear_create = linear_create;
  observer->ops.linear_forward = linear_forward;
  observer->ops.linear_fuses = NULL;         /* observers read normalised inputs */
  observer->ops.decode_layers_create = NULL; /* and those of every layer */
  observer->ops.decode_layers_exchange = NULL;
  observer->ops.decode_layers_connect = NULL;
  observer->ops.decode_layers_takes = NULL;
  observer->ops.decode_layers_run = NULL;
  observer->ops.decode_layers_destroy = NULL;
  if (dev->ops->mixture_forward) observer->ops.mixture_forward = mixture_forward;
  if (dev->ops->latent_attention) observer->ops.latent_attention = latent_attention;
  dev->ops = &observer->ops;
}

void yk_observer_detach(const yk_observer *observer, yk_device *dev)
{
  dev->ops = observer->inner;
}
