"""Why a method stops: what a trained model does inside, at one length after another."""
