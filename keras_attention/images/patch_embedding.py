"""Patches of images as vectors."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import _functional
from keras_attention import _validation
from keras_attention import _weights
from keras_attention.images import _windows


@keras.saving.register_keras_serializable(package="keras_attention")
class PatchEmbedding(keras.layers.Layer):
    """Projects the patches of an image to vectors, the inputs of a Vision Transformer.

    Stands first in a ViT (`flatten=True`: a sequence of patches) or a Swin Transformer (`flatten=False`: a
    grid). Patches do not overlap; the projection is one convolution.

    ```
    tokens[p]  = patch_p W + b                                 row by row
    output     = [class_token, tokens] + table                 use_class_token, use_position_embedding
    ```

    Differs from the paper: where the patches do not divide the image, zeros fill it up below and to the
    right. The table belongs to images of one size: the layer refuses others, and does not interpolate.

    A mask of pixels ends here; give the blocks behind it one of patches.

    Args:
        patch_size: Integer or `(height, width)`. Size of a patch.
        output_dim: Integer. Width of the vectors.
        flatten: Boolean. Whether to return a sequence and not a grid. Defaults to `True`.
        use_class_token: Boolean. Whether a learned vector stands before the patches, of which a classifier
            reads the result. Defaults to `False`.
        use_position_embedding: Boolean. Whether a learned vector is added for each position; height and width
            must then be known. Defaults to `False`.
        use_bias: Boolean. Whether the projection has a bias. Defaults to `True`.
        embeddings_initializer: Initializer of the class token and of the table. Defaults to
            `"truncated_normal"`.
        kernel_initializer: Initializer of the kernel. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the bias. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernel. Defaults to `None`.
        bias_regularizer: Regularizer of the bias. Defaults to `None`.
        kernel_constraint: Constraint of the kernel. Defaults to `None`.
        bias_constraint: Constraint of the bias. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, height, width, channels)`.

    Output shape:
        `(batch, num_patches, output_dim)`, with a class token `(batch, 1 + num_patches, output_dim)`; with
        `flatten=False` `(batch, num_rows, num_columns, output_dim)`.

    Example:
    ```python
    import keras
    from keras_attention import PatchEmbedding

    images = keras.Input((32, 32, 3))
    tokens = PatchEmbedding(patch_size=4, output_dim=48, use_class_token=True)(images)
    grid = PatchEmbedding(patch_size=4, output_dim=48, flatten=False)(images)
    print(tokens.shape, grid.shape)  # (None, 65, 48) (None, 8, 8, 48)
    ```

    Reference:
        [An Image is Worth 16x16 Words](https://arxiv.org/abs/2010.11929)
    """

    def __init__(
        self,
        patch_size: Any,
        output_dim: int,
        flatten: bool = True,
        use_class_token: bool = False,
        use_position_embedding: bool = False,
        use_bias: bool = True,
        embeddings_initializer: Any = "truncated_normal",
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.patch_size = _windows.size_pair("patch_size", patch_size)
        _validation.check_positive_int("output_dim", output_dim)
        flags = {
            "flatten": flatten,
            "use_class_token": use_class_token,
            "use_position_embedding": use_position_embedding,
            "use_bias": use_bias,
        }
        for name, value in flags.items():
            _validation.check_bool(name, value)
        if use_class_token and not flatten:
            raise ValueError(
                "`use_class_token` needs `flatten=True`: a grid has no place for it. "
                "Received: use_class_token=True, flatten=False"
            )
        self.output_dim = output_dim
        self.flatten = flatten
        self.use_class_token = use_class_token
        self.use_position_embedding = use_position_embedding
        self.use_bias = use_bias
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        _weights.set_options(self, **_weights.pick(locals()))
        self.supports_masking = True
        self._grid: tuple[Any, Any] | None = None

    def build(self, inputs_shape: Any) -> None:
        _windows.check_images(inputs_shape)
        self.input_spec = keras.layers.InputSpec(axes={-1: inputs_shape[-1]})
        self.kernel = _weights.add_kernel(
            self, "kernel", (*self.patch_size, inputs_shape[-1], self.output_dim)
        )
        self.bias = _weights.add_bias(self, "bias", (self.output_dim,))
        if self.use_class_token:
            self.class_token = self._add_embedding("class_token", 1)
        if self.use_position_embedding:
            rows, columns = self._counts(inputs_shape)
            if rows is None or columns is None:
                raise ValueError(
                    "`use_position_embedding` needs images of a known height and width. "
                    f"Received: inputs.shape={tuple(inputs_shape)}"
                )
            self._grid = (rows, columns)
            self.position_embedding = self._add_embedding(
                "position_embedding", int(self.use_class_token) + rows * columns
            )
        self.built = True

    def _add_embedding(self, name: str, rows: int) -> Any:
        return self.add_weight(
            name=name,
            shape=(rows, self.output_dim),
            initializer=_validation.clone_initializer(self.embeddings_initializer),
        )

    def call(self, inputs: Any) -> Any:
        self._check_shape(inputs.shape)
        inputs = ops.cast(inputs, self.compute_dtype)  # images may be integers, which Keras leaves alone
        batch, *sizes, _ = ops.shape(inputs)
        rows, columns = self._counts((batch, *sizes))
        x = _windows.pad(inputs, (rows * self.patch_size[0], columns * self.patch_size[1]))
        x = ops.conv(x, self.kernel, strides=self.patch_size, data_format="channels_last")
        if self.bias is not None:
            x = ops.add(x, self.bias)
        if self.flatten:
            x = self._add_embeddings(_functional.reshape(x, (batch, rows * columns, self.output_dim)))
        elif self.use_position_embedding:
            table = ops.convert_to_tensor(self.position_embedding)
            x = ops.add(x, ops.reshape(table, (1, rows, columns, self.output_dim)))
        return x

    def _add_embeddings(self, tokens: Any) -> Any:
        """Adds one table, of which the class token is the first row: no copy of it for each image."""
        table = None
        if self.use_position_embedding:
            table = ops.convert_to_tensor(self.position_embedding)
        if self.use_class_token:
            token = ops.convert_to_tensor(self.class_token)
            zeros = ops.zeros(ops.shape(tokens)[1:], token.dtype)
            token = ops.concatenate([token, zeros], axis=0)  # unlike a PAD, it folds
            tokens = ops.pad(tokens, ((0, 0), (1, 0), (0, 0)))
            table = token if table is None else ops.add(table, token)
        return tokens if table is None else ops.add(tokens, table)

    def compute_mask(self, inputs: Any, mask: Any = None) -> None:
        return None

    def _counts(self, shape: Any) -> tuple[Any, Any]:
        return _windows.divide(shape[1], self.patch_size[0]), _windows.divide(shape[2], self.patch_size[1])

    def _check_shape(self, shape: Any) -> None:
        _windows.check_images(shape)
        if self._grid is not None and self._counts(shape) != self._grid:
            raise ValueError(
                f"The layer was built for {self._grid[0]} x {self._grid[1]} patches, each with its position "
                "embedding; resize the images, or make another layer. "
                f"Received: inputs.shape={tuple(shape)}, patch_size={self.patch_size}"
            )

    def compute_output_shape(self, inputs_shape: Any) -> tuple[Any, ...]:
        self._check_shape(inputs_shape)
        rows, columns = self._counts(inputs_shape)
        if not self.flatten:
            return (inputs_shape[0], rows, columns, self.output_dim)
        is_known = rows is not None and columns is not None
        length = int(self.use_class_token) + rows * columns if is_known else None
        return (inputs_shape[0], length, self.output_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "patch_size": self.patch_size,
            "output_dim": self.output_dim,
            "flatten": self.flatten,
            "use_class_token": self.use_class_token,
            "use_position_embedding": self.use_position_embedding,
            "use_bias": self.use_bias,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
            **_weights.get_options(self),
        }
