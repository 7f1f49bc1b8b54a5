#!/usr/bin/perl
# Rotates the till's rolls

# Settings

use strict;
sub rotate { my ($n) = @_; return $n; }
