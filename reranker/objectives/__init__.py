"""Objectives of cross-encoders, one idea a file: how texts and links become contrasts.

PROP (Ma et al. 2021)     prop, prop-random
HARP (Ma et al. 2021)     harp-rqp, harp-qdm, harp-rdp, harp-acm
PHP (Wu et al. 2022)      php-hp, php-shp, php-mrds
their rivals              ict, wlp
"""
