"""Running an experiment: settings, answers, folder, reports."""
