"""The 19 corruptions of ImageNet-C in batched torch, one algorithm a file.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, and the code published with it: ``make_imagenet_c.py`` for 224
pixels, ``make_cifar_c.py`` for 32.

Every function takes images (B, 3, H, W) in levels, which are whole numbers from 0 to 255 kept as float32, and returns
levels that may be fractions or lie outside; what all share is in ``corrupt``. Lengths are constants in pixels and do
not scale with the image: an image of another size meets the strengths that the authors chose for 224 or 32 pixels.

No sum depends on its order: weights of filters are rounded to binary fractions so short that every partial sum is exact
(see ``weights``). All else is one rounded operation after another, element by element. So neither the batch nor the
number of threads changes a byte.
"""
